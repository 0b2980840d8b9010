"""What a GPU node needs of a service, wherever it computes: in this process, or in an engine's server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tangram_tasks.errors import InvalidAction, ServiceUnavailable

if TYPE_CHECKING:
    from torch import Tensor

    from workers.canary import Canary
    from workers.device_ops import DeviceOps


class Away(ServiceUnavailable):
    """What computes the service could not be reached. It may be back later: the service has not failed."""


class Paged(Protocol):
    """A service on one device, as its pager moves it."""

    nbytes: int
    leased: bool

    def page_in(self, offset: int) -> None:
        """Put the service onto the device, and return when it answers rightly there. Raises ServiceUnavailable.

        Args:
            offset: where its bytes belong in the arena; services outside of the arena need not care.
        """

    def page_out(self) -> int:
        """Give the device's bytes up; return how many of `nbytes` are still taken there (0 when all is well).

        Raises ServiceUnavailable if it could not: then all of them count as taken.
        """

    def settle(self) -> str:
        """After the last lease: keep declared changes; return what changed without being declared, or ""."""


M = TypeVar("M")


def method_named(service: str, methods: Mapping[str, M], name: str) -> M:
    """Return a service's method. Raises InvalidAction naming those there are."""
    if name not in methods:
        raise InvalidAction(f"service {service} has no method {name!r}, only: {', '.join(sorted(methods))}")
    return methods[name]


class Watch(Protocol):
    """Looks after a running call; a `ServiceLease` is one."""

    @property
    def deadline(self) -> float:
        """The `time.monotonic()` value at which the action's timeout ends."""

    def check(self) -> None:
        """Raise ActionCancelled, ActionTimeout or ServiceUnavailable if the call must not go on."""


class Method(Protocol):
    """One thing a service can be asked."""

    @property
    def items(self) -> Callable[[dict[str, Any]], Sequence[Any]]:
        """Returns a payload's independent items, checked. Raises InvalidAction saying what it expects."""

    @property
    def batch(self) -> int:
        """Items per run at most."""


@dataclass(frozen=True, slots=True)
class Place:
    """A device that a service may be paged onto.

    Args:
        device: its id, for messages.
        ops: moves bytes there; None on a node without services in this process.
        memory: its arena; None in the same case.
        overlap: calls may start while a page-in still runs.
    """

    device: str
    ops: DeviceOps | None = None
    memory: Tensor | None = None
    overlap: bool = False


class Service(Protocol):
    """A reward model that a node can page onto its devices."""

    @property
    def name(self) -> str:
        """By which actions ask for it."""

    @property
    def nbytes(self) -> int:
        """Bytes that a page-in takes on each of its devices, and a page-out gives back."""

    @property
    def residual_bytes(self) -> int:
        """Bytes that it holds on each of its devices all the time, paged in or not."""

    @property
    def in_arena(self) -> bool:
        """Whether its bytes lie in the node's arena; an engine has memory of its own."""

    @property
    def canary(self) -> Canary | None:
        """A question with a known answer."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of devices that a lease can have; () when any will do."""

    @property
    def spans(self) -> tuple[tuple[int, ...], ...]:
        """The sets of devices, by index, that a lease can have; () when any will do."""

    def replicas(self, places: Sequence[Place]) -> Sequence[Paged | None]:
        """Return what pages it onto each place; None where it cannot be. Called once. Raises ConfigurationError."""

    def method(self, name: str) -> Method:
        """Return a method. Raises InvalidAction naming those there are."""

    def run(self, name: str, replica: Any, items: Sequence[Any], watch: Watch) -> list[Any]:
        """Answer one batch on a leased replica, one of those that `replicas` returned.

        Raises ServiceUnavailable for whatever goes wrong in the service, and what `watch.check` raises.
        """

    def free(self) -> None:
        """Give back what it holds beside its pages. Idempotent."""
