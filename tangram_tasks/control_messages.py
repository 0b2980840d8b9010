"""What clients and operators tell the scheduler; it goes to a stream."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tangram_tasks.egress import SetNetwork
from tangram_tasks.isolation import MountPath, Network
from tangram_tasks.message import SAID
from tangram_tasks.sharing import SetJob, SetQuota


class _Message(BaseModel):
    model_config = SAID


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
