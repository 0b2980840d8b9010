"""What nodes are told to do, and what they answer to those who look after services."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.egress import ChangeEgress
from tangram_tasks.message import REPORTED, SAID
from tangram_tasks.sharing import CloseProvider

ServiceVerb = Literal["ls", "load", "park", "pin", "unpin", "canary"]


class _Message(BaseModel):
    model_config = SAID


class _Report(BaseModel):
    model_config = REPORTED


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
