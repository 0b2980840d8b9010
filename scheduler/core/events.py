"""What the core is told and what it answers.

Times are whole milliseconds of one clock that the shell owns; every event carries `at`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from scheduler.core.quota import CallSent, ProviderClosed, Quota, QuotaChanged, QuotaSpent


@dataclass(frozen=True, slots=True)
class Action:
    """One action as the core sees it.

    Args:
        id: the Celery task id.
        seq: place in the order of arrival; a re-admitted action keeps its old one.
        arrival: when it was published, ms.
        demand: the least it needs of every resource; of `key` it is `sizes[0]`.
        key: its key elastic resource: "cpu", "gpu" or "api:NAME".
        sizes: allowed units of `key`, ascending.
        durations: expected ms at each size, parallel to `sizes`, each >= 1.
        trajectory: the trajectory whose sandbox it runs in, if any.
        deadline: ms after which it may no longer wait (`max_queue`), if any.
        priority: higher goes first; see `scheduler.core.fcfs.order`.
        malleable: its units may change while it runs.
        job: the RL job it belongs to; jobs share fairly.
        light: it needs next to no cpu: it is not sized, and takes a light slot of its node instead of cpu units.
        service: the reward model it calls; only nodes that hold it can run the action.
    """

    id: str
    seq: int
    arrival: int
    demand: Mapping[str, int]
    key: str
    sizes: tuple[int, ...]
    durations: tuple[int, ...]
    trajectory: str | None = None
    deadline: int | None = None
    priority: int = 0
    malleable: bool = False
    job: str = ""
    light: bool = False
    service: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """An action arrived (or came back to be run again)."""

    at: int
    action: Action


@dataclass(frozen=True, slots=True)
class Restored:
    """After a restart of the scheduler: this action already holds a grant."""

    at: int
    action: Action
    node: str
    units: int
    lane: int = 0


@dataclass(frozen=True, slots=True)
class Released:
    """An action ended, however it ended, and its units are free again."""

    at: int
    action: str


@dataclass(frozen=True, slots=True)
class Resized:
    """A node has carried out a Resize: the action has `units` of its key resource from now on.

    Units other than those last asked for mean that the node could not do it; they count, and the action is not
    resized again.
    """

    at: int
    action: str
    units: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A waiting action must not be granted any more."""

    at: int
    action: str


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node offers its capacity. An API node offers quotas; several nodes share one quota by name.

    A GPU node names the services it holds.
    A CPU or GPU node that is `draining` gets only what is bound to it: actions of the trajectories that live there,
    and forks of them.
    """

    at: int
    node: str
    kind: Literal["cpu", "gpu", "api"]
    capacity: Mapping[str, int] = field(default_factory=dict)
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    services: tuple[str, ...] = ()
    draining: bool = False


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node is dead: its capacity, sandboxes and grants are gone.

    Args:
        at: ms.
        node: which.
        kept: trajectories whose sandboxes outlived its process: a new one, which joins next, has adopted them.
    """

    at: int
    node: str
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JobWeight:
    """An RL job shares with others by this weight, from now on; None lets it go."""

    at: int
    job: str
    weight: int | None


@dataclass(frozen=True, slots=True)
class TrajectoryOpened:
    """A trajectory wants a sandbox with `memory` MiB for its lifetime. Answered by OpenSandbox when it fits.

    Args:
        at: ms.
        trajectory: its id.
        memory: MiB.
        node: the only node that will do: it has what the trajectory begins with. None: any.
    """

    at: int
    trajectory: str
    memory: int
    node: str | None = None


@dataclass(frozen=True, slots=True)
class TrajectoryRestored:
    """After a restart of the scheduler: this trajectory already lives on `node`."""

    at: int
    trajectory: str
    memory: int
    node: str
    ready: bool


@dataclass(frozen=True, slots=True)
class SandboxReady:
    """The trajectory's sandbox is up: its actions become candidates there."""

    at: int
    trajectory: str


@dataclass(frozen=True, slots=True)
class TrajectoryClosed:
    """The trajectory is over (closed, failed to start, or its lease ran out). Its waiting actions are rejected."""

    at: int
    trajectory: str
    reason: str = "closed"


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed: deadlines, token buckets."""

    at: int


Event = (
    Submitted
    | Restored
    | Released
    | Resized
    | Cancelled
    | NodeJoined
    | NodeLost
    | QuotaChanged
    | ProviderClosed
    | CallSent
    | QuotaSpent
    | JobWeight
    | TrajectoryOpened
    | TrajectoryRestored
    | SandboxReady
    | TrajectoryClosed
    | Tick
)


@dataclass(frozen=True, slots=True)
class Grant:
    """Start this action on this node with so many units of its key resource; 0 for a light action.

    `lane` says which of our keys to a provider its calls use.
    """

    action: str
    node: str
    units: int
    lane: int = 0


@dataclass(frozen=True, slots=True)
class Resize:
    """Give this running action so many units from now on; the node answers with Resized."""

    action: str
    node: str
    units: int


@dataclass(frozen=True, slots=True)
class Reject:
    """This action will not run; the shell tells its caller with the matching error."""

    action: str
    outcome: Literal["infeasible", "no_capacity", "quota_exhausted", "sandbox_lost", "trajectory_unknown"]
    detail: str


@dataclass(frozen=True, slots=True)
class OpenSandbox:
    """Make the trajectory's sandbox on this node; its memory is reserved there."""

    trajectory: str
    node: str


@dataclass(frozen=True, slots=True)
class CloseSandbox:
    """Remove the trajectory's sandbox from this node."""

    trajectory: str
    node: str


@dataclass(frozen=True, slots=True)
class PageIn:
    """Bring a service onto these devices if nobody uses them now. A hint: nothing waits for it or is told of it.

    Args:
        node: of the devices.
        service: one that the node holds.
        devices: by index.
    """

    node: str
    service: str
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RefuseSandbox:
    """No node can ever hold this trajectory's memory."""

    trajectory: str
    detail: str


Decision = Grant | Resize | PageIn | Reject | OpenSandbox | CloseSandbox | RefuseSandbox
