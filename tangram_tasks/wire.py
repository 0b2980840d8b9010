"""The wire format: headers and messages, each a pydantic model with a version.

Two headers ride on a plain Celery protocol-2 message. `tangram` says what the action asks for; it is written by
the publisher. `tangram_grant` says what it got; only the scheduler writes it, and every publish drops it.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, Field

from tangram_tasks.action import ActionSpec
from tangram_tasks.egress import ChangeEgress, Egress, SetNetwork
from tangram_tasks.holding import GrantsHeld
from tangram_tasks.isolation import MountPath, Network
from tangram_tasks.message import REPORTED, SAID
from tangram_tasks.sharing import CallsSent, CloseProvider, ProviderState, QuotaRecord, SetJob, SetQuota
from tangram_tasks.verdict import Verdict

VERSION: Final = 1
HEADER = "tangram"
GRANT_HEADER = "tangram_grant"

NodeKind = Literal["cpu", "gpu", "api"]
ServiceVerb = Literal["ls", "load", "park", "pin", "unpin", "canary"]


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


class OpenTrajectory(_Message):
    """Client to scheduler: a trajectory begins and wants a sandbox.

    Args:
        trajectory: its id.
        image: image name.
        memory: MiB for the sandbox's lifetime.
        expires_at: wall clock after which it is closed whatever happens.
        network: "none", "bridge", or the name of a network that the engine knows.
        env: environment of every command.
        job: the RL job it belongs to.
        mounts: folders of the node, shown read-only: path there to path in the sandbox.
        user: uid of every command; by default the node chooses.
        fork_of: the trajectory whose files it begins with, on the same node.
    """

    op: Literal["open"] = "open"
    trajectory: str
    image: str
    memory: int = Field(gt=0)
    expires_at: float
    network: Network = "none"
    env: dict[str, str] = {}
    job: str = ""
    mounts: dict[MountPath, MountPath] = {}
    user: int | None = Field(default=None, gt=0, lt=65534)
    fork_of: str | None = None


class CloseTrajectory(_Message):
    """Client to scheduler: the trajectory is over."""

    op: Literal["close"] = "close"
    trajectory: str


class CancelAction(_Message):
    """Client to scheduler: cancel an action, waiting or running."""

    op: Literal["cancel"] = "cancel"
    action: str


class ResizeRequest(_Message):
    """Client to scheduler: let a running malleable action have so many units; one of its allowed sizes."""

    op: Literal["resize"] = "resize"
    action: str
    units: int = Field(ge=1)


class PauseAdmission(_Message):
    """Operator to scheduler: take in no new actions, or take them in again. Those that wait or run go on."""

    op: Literal["pause"] = "pause"
    paused: bool


class ExplainAction(_Message):
    """Client to scheduler: why does this action wait? The answer goes to a list of that number."""

    op: Literal["explain"] = "explain"
    action: str
    question: str = Field(pattern="^[0-9a-f]{32}$")


ControlMessage = (
    OpenTrajectory
    | CloseTrajectory
    | CancelAction
    | ResizeRequest
    | SetNetwork
    | PauseAdmission
    | ExplainAction
    | SetQuota
    | SetJob
)


class OpenSandbox(_Message):
    """Scheduler to node: make this sandbox."""

    op: Literal["open"] = "open"
    order: OpenTrajectory


class CloseSandbox(_Message):
    """Scheduler to node: remove this sandbox."""

    op: Literal["close"] = "close"
    trajectory: str


class KillAction(_Message):
    """Scheduler to node: kill this running action."""

    op: Literal["kill"] = "kill"
    action: str
    grant: str


class ResizeAction(_Message):
    """Scheduler to node: let this running action have so many units; answered by ActionResized.

    Args:
        action: the action.
        grant: which of its grants.
        units: how many.
        turn: tells this order from others of the grant. One that is sent twice does no harm.
    """

    op: Literal["resize"] = "resize"
    action: str
    grant: str
    units: int = Field(ge=1)
    turn: int = 0


class PageIn(_Message):
    """Scheduler to node: bring a service onto these devices if nobody uses them; a hint, not answered."""

    op: Literal["page_in"] = "page_in"
    service: str
    devices: tuple[int, ...]


class DrainNode(_Message):
    """To a node: take nothing new, finish what is there, then leave."""

    op: Literal["drain"] = "drain"


class ServiceOrder(_Message):
    """To a GPU node: look at its services, or move one by hand; answered by ServiceAnswer.

    Args:
        verb: "ls" looks; "load" and "park" page in and out now; "pin" keeps it resident, "unpin" lets it go again;
            "canary" asks the question whose answer is known.
        service: which one; "" is all of them, for "ls".
        reply: names the answer.
        timeout: seconds that it may take.
    """

    op: Literal["service"] = "service"
    verb: ServiceVerb
    service: str = ""
    reply: str
    timeout: float = Field(default=60.0, gt=0)


class KeepWarm(_Message):
    """To a CPU node: keep so many sandboxes of an image with so many MiB ready."""

    op: Literal["warm"] = "warm"
    image: str
    memory: int = Field(gt=0)
    count: int = Field(ge=0)


NodeOrder = (
    OpenSandbox
    | CloseSandbox
    | KillAction
    | ResizeAction
    | ChangeEgress
    | PageIn
    | CloseProvider
    | DrainNode
    | KeepWarm
    | ServiceOrder
)


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


class ServiceState(_Report):
    """A service on one device.

    Args:
        service: its name.
        device: the device's id.
        state: where its weights are.
        reason: why it has failed.
        nbytes: bytes that it takes there when it is paged in.
        kept: it does not make room for others.
        in_use: actions that hold it there now.
        page_ins: how often it was paged in.
        hits: how often it was there already.
    """

    service: str
    device: str
    state: str
    reason: str = ""
    nbytes: int
    kept: bool
    in_use: int
    page_ins: int = 0
    hits: int = 0


class ServiceAnswer(_Report):
    """Node to whoever sent a ServiceOrder.

    Args:
        node: the node.
        ok: whether it was done.
        message: what was done, or why it was not.
        states: of the services that were asked about.
    """

    node: str
    ok: bool
    message: str = ""
    states: tuple[ServiceState, ...] = ()


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
