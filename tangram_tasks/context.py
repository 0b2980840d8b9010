"""What the body of a running action can reach, and the hook by which a worker supplies it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from tangram_tasks.errors import ConfigurationError
from tangram_tasks.sandbox import Sandbox


class ServiceHandle(Protocol):
    """A reward model that is paged in for the length of one action."""

    def call(self, method: str, payload: dict[str, Any]) -> Any:
        """Call a method of the service, for example "score".

        Raises ServiceUnavailable, ActionTimeout.
        """


class ApiHandle(Protocol):
    """A provider's HTTP API, for the length of one action."""

    def request(self, method: str, path: str, **options: Any) -> Any:
        """Send one request; `options` are httpx's. Returns an `httpx.Response`.

        Raises ServiceUnavailable, QuotaExhausted, ActionTimeout.
        """


@dataclass(frozen=True, slots=True)
class ActionContext:
    """The resources of the action that runs in this thread.

    Args:
        action: its task id.
        units: units of its key resource.
        deadline: `time.monotonic()` value at which its `timeout` ends.
        sandbox: its trajectory's sandbox.
        service: the reward model it asked for.
        api: the provider it asked for.
    """

    action: str
    units: int
    deadline: float
    sandbox: Sandbox | None = None
    service: ServiceHandle | None = None
    api: ApiHandle | None = None


class ActionRuntime(Protocol):
    """What a worker installs on the app; without one, actions run without resources (eagerly, in tests)."""

    def claim(self, request: Any) -> None:
        """START: claim the grant of this request once. Raises celery's Ignore when it is not ours to run."""

    def store(self, request: Any, payload: bytes, seconds: int) -> None:
        """Store the encoded result of this request for so many seconds, unless its grant is gone."""

    def resources(self, request: Any) -> AbstractContextManager[ActionContext]:
        """Give the granted resources, and take them back at the end whatever happened."""


_current: ContextVar[ActionContext | None] = ContextVar("tangram_action", default=None)


def current_action() -> ActionContext:
    """Return the context of the running action. Raises ConfigurationError outside of one."""
    context = _current.get()
    if context is None:
        raise ConfigurationError("this code runs only inside an action that a tangram worker started")
    return context
