"""What a sandbox can reach, and the messages by which that changes while its trajectory goes on."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tangram_tasks.isolation import Network


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Egress(_Message):
    """What a sandbox can reach from some moment on.

    Args:
        network: "none", "bridge", or the name of a network that the engine knows.
        turn: counts the changes of one trajectory; an earlier one that arrives later is void.
    """

    network: Network
    turn: int = Field(gt=0)


class SetNetwork(_Message):
    """Client to scheduler: the trajectory's next actions run with this network, and none before it has it."""

    op: Literal["network"] = "network"
    trajectory: str
    network: Network


class ChangeEgress(_Message):
    """Scheduler to node: let this sandbox reach something else, now; its next grant says so again."""

    op: Literal["egress"] = "egress"
    trajectory: str
    egress: Egress
