"""What the runtime needs of a node, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tangram_tasks.context import ActionContext
from tangram_tasks.orders import NodeOrder
from tangram_tasks.sharing import QuotaRecord
from tangram_tasks.wire import ActionHeader, GrantHeader, NodeKind


@dataclass(slots=True)
class Usage:
    """What an action cost beside its body, and what it held; filled in while it runs. Seconds and bytes."""

    resize_s: float = 0.0
    restore_s: float = 0.0
    page_ins: int = 0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    units_over_time: list[tuple[float, int]] = field(default_factory=list)
    calls: int = 0
    sent_at: float = 0.0
    tokens: int | None = None


class TryLater(Exception):
    """The body ended for a reason that another try may not have; the scheduler grants it again.

    Args:
        message: why.
        seconds: not before that.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(slots=True)
class Applied:
    """A grant that was applied: the body's context, and what it cost."""

    context: ActionContext
    usage: Usage = field(default_factory=Usage)


class Node(Protocol):
    """One node of a pool: applies grants, obeys orders."""

    kind: NodeKind
    name: str
    slots: int

    @property
    def capacity(self) -> Mapping[str, int]:
        """Units and MiB it offers."""

    @property
    def quotas(self) -> Mapping[str, QuotaRecord]:
        """API providers it can call."""

    @property
    def services(self) -> tuple[str, ...]:
        """Reward models it can page in."""

    @property
    def trajectories(self) -> tuple[str, ...]:
        """The trajectories whose sandboxes it holds."""

    def apply(self, action: str, header: ActionHeader, grant: GrantHeader) -> AbstractContextManager[Applied]:
        """Give the granted resources for the length of the context, and take them back whatever happens.

        Giving them may take as long as the action's timeout; that starts to count when they are given.

        Args:
            action: task id.
            header: what it asked for.
            grant: what it got.
        """

    def cancel(self, action: str) -> bool:
        """Kill what a running action runs here; False if it does not run here."""

    def obey(self, order: NodeOrder) -> Any:
        """Carry out an order that is not a kill; returns a NodeEvent to report, a ServiceAnswer, or None."""

    def units_of(self, action: str, grant: str) -> int:
        """Units that the action holds under this grant; 0 if this node does not count them, or it has none yet."""

    def stats(self) -> dict[str, float]:
        """Counters for people."""

    def stop(self) -> None:
        """Give everything back. Idempotent."""
