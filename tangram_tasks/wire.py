"""The wire format: the headers of an action, what nodes report and announce. Each is a pydantic model.

Two headers ride on a plain Celery protocol-2 message. `tangram` says what the action asks for; it is written by
the publisher. `tangram_grant` says what it got; only the scheduler writes it, and every publish drops it.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, Field

from tangram_tasks.action import ActionSpec
from tangram_tasks.egress import Egress
from tangram_tasks.holding import GrantsHeld
from tangram_tasks.message import REPORTED, SAID
from tangram_tasks.sharing import CallsSent, ProviderState, QuotaRecord
from tangram_tasks.verdict import Verdict

VERSION: Final = 1

HEADER = "tangram"
GRANT_HEADER = "tangram_grant"

NodeKind = Literal["cpu", "gpu", "api"]


class _Message(BaseModel):
    model_config = SAID


class _Report(BaseModel):
    model_config = REPORTED


class ActionHeader(_Message):
    """What the publisher says of an action.

    Args:
        v: version of this format.
        spec: demand, limits, scaling.
        trajectory: the trajectory it belongs to.
        job: the RL job it belongs to.
        weight: that job's share, if the publisher knows it.
        attempts: how often it was started so far.
        tries: how often its provider refused or lost its calls so far.
        spent: seconds that these tries took of its timeout.
        published_at: wall clock of the publisher, seconds.
        key: its `action_key`: its recorded result is given to every later call with it.
        call: what tells its call from others.
        verdict: written by the scheduler when the action must end without running.
    """

    v: Literal[1] = VERSION
    spec: ActionSpec
    trajectory: str | None = None
    job: str = ""
    weight: int | None = Field(default=None, ge=1)
    attempts: int = 0
    tries: int = 0
    spent: float = 0.0
    published_at: float = 0.0
    key: str | None = None
    call: str = ""
    verdict: Verdict | None = None


class GrantHeader(_Message):
    """The right of one action to given units on a node until released.

    Args:
        id: `epoch-seq-nonce`; every step of the worker is fenced by it.
        node: the node.
        units: units of the key resource.
        lane: which of our keys to a provider its calls use.
        granted_at: wall clock of the scheduler, seconds.
        queue_s: seconds it waited.
        sandbox_s: the part of that for which its sandbox was not ready.
        attempt: 1 for the first start.
        next_services: what those who wait for the node will ask for, in the order of their turns.
        egress: what its sandbox must be able to reach, no more and no less; None: what it was made with.
    """

    v: Literal[1] = VERSION
    id: str
    node: str
    units: int
    lane: int = 0
    granted_at: float
    queue_s: float = 0.0
    sandbox_s: float = 0.0
    attempt: int = 1
    next_services: tuple[str, ...] = ()
    egress: Egress | None = None


class SandboxState(_Report):
    """Node to scheduler: what became of a sandbox."""

    event: Literal["sandbox"] = "sandbox"
    node: str
    trajectory: str
    ready: bool
    reason: str = ""


class NodeState(_Report):
    """Node to scheduler: it started or stopped."""

    event: Literal["node"] = "node"
    node: str
    generation: str
    up: bool


class ActionResized(_Report):
    """Node to scheduler: what became of a ResizeAction.

    Args:
        node: the node.
        action: the action.
        grant: the grant that the order named.
        units: what that grant holds now; 0 if it does not run here.
        ok: whether that is what was ordered.
        reason: why not.
        turn: of the order.
    """

    event: Literal["resized"] = "resized"
    node: str
    action: str
    grant: str
    units: int = Field(ge=0)
    ok: bool
    reason: str = ""
    turn: int = 0


NodeEvent = SandboxState | NodeState | ActionResized | GrantsHeld | ProviderState | CallsSent


class NodeRecord(_Report):
    """What a node announces of itself.

    Args:
        node: its name, unique in the deployment.
        kind: which pool.
        generation: new on every start; a new one means that the old process's grants are gone, and those of its
            sandboxes that are not announced.
        capacity: units and MiB.
        quotas: API providers it can call.
        services: reward models it can page in.
        trajectories: those whose sandboxes it holds, also from an earlier process of its name.
        running: grants that it has claimed and whose end it has not told yet.
        broker: the run of the broker that it has told what it runs and what it ended; see `workers.recollection`.
        draining: it takes nothing new and leaves once its trajectories are over.
        host: where it runs.
        pid: its process.
        beat: wall clock of its last heartbeat, by the Redis server's clock.
        stats: counters for people (page-ins, sandboxes, ...).
    """

    node: str
    kind: NodeKind
    generation: str
    capacity: dict[str, int]
    quotas: dict[str, QuotaRecord] = {}
    services: tuple[str, ...] = ()
    trajectories: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    broker: str = ""
    draining: bool = False
    host: str = ""
    pid: int = 0
    beat: float = 0.0
    stats: dict[str, float] = {}
