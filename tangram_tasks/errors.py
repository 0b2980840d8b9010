"""Every way an action can end other than well, one class each.

    TangramError
    ├── InvalidAction (ValueError)        the call or the declaration is wrong; nothing was published
    ├── ConfigurationError (ValueError)   a setting is wrong or something that was asked for is missing
    ├── BrokerUnavailable (ConnectionError)
    ├── Infeasible                        no node could ever hold the demand
    ├── NoCapacity                        waited longer than `max_queue`; try again in `retry_after` s
    │   └── QuotaExhausted                the same, of an API quota
    ├── ActionTimeout (TimeoutError)      ran longer than `timeout` (execution only)
    ├── ActionOutOfMemory                 the kernel killed it at the sandbox's memory limit
    ├── ActionCancelled
    ├── NodeLost                          its node died and the action may not be run again
    ├── SandboxError                      the sandbox could not be made, or is gone
    │   └── SpawnFailed                   the command could not be started (not found, not executable)
    │       └── NoProcessesLeft           because the sandbox has as many processes as it may
    ├── ServiceUnavailable                the reward model or the API could not answer
    └── ResultTooLarge                    the action ended well, but its result is more than a broker should carry

None of these is a verdict on the trajectory: an adapter must never turn one into reward 0.
Arguments are plain values in `args` order, so that each survives Celery's JSON round trip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tangram_tasks.sandbox import ExecResult


class TangramError(Exception):
    """Base of all errors of this project."""


class InvalidAction(TangramError, ValueError):
    """The declaration or the call is wrong."""


class ConfigurationError(TangramError, ValueError):
    """A setting is wrong, or something that was asked for is missing."""


class BrokerUnavailable(TangramError, ConnectionError):
    """The broker does not answer. The message names its URL without the password."""


class Infeasible(TangramError):
    """No node could ever hold this demand."""


class NoCapacity(TangramError):
    """The action waited longer than its `max_queue`.

    Args:
        message: what was asked and what was free.
        retry_after: seconds after which a new try makes sense.
    """

    def __init__(self, message: str = "no capacity", retry_after: float = 1.0) -> None:
        super().__init__(message, retry_after)
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.args[0]} (retry after {self.retry_after:g} s)"


class QuotaExhausted(NoCapacity):
    """An API quota had no room within the action's `max_queue`."""


class ActionTimeout(TangramError, TimeoutError):
    """The action ran longer than its `timeout`. Waiting does not count."""

    #: What the command had written and used; only inside the action's own body, it is not sent on.
    result: ExecResult | None = None


class ActionOutOfMemory(TangramError):
    """The kernel killed the action at the sandbox's memory limit.

    Not a MemoryError: Celery takes that for its own process running out.
    """

    #: What the command had written and used; only inside the action's own body, it is not sent on.
    result: ExecResult | None = None


class ActionCancelled(TangramError):
    """Somebody cancelled the action."""

    #: What the command had written and used; only inside the action's own body, it is not sent on.
    result: ExecResult | None = None


class NodeLost(TangramError):
    """The action's node died, and the action may not (or no longer) be run again."""


class SandboxError(TangramError):
    """The sandbox could not be made, or is gone."""


class SpawnFailed(SandboxError):
    """The command could not be started: not found, or not executable."""


class NoProcessesLeft(SpawnFailed):
    """The sandbox has as many processes as it may. They were killed, so that the next command can start."""


class ServiceUnavailable(TangramError):
    """The reward model or the API could not answer."""


class ResultTooLarge(TangramError):
    """The action returned more than the deployment allows: leave large data in the sandbox, or return a part of it."""
