"""What the ledger holds, as it is read: records, everything at once, and what has arrived."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from scheduler.quarantine import QuarantineRecord
from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.egress import Egress
from tangram_tasks.grants import GrantRecord


class TrajectoryRecord(BaseModel):
    """A trajectory as the ledger keeps it.

    Args:
        order: what it asked for.
        node: empty until it is placed.
        generation: the node's process.
        home: empty unless it must be there.
        ready_at: when its sandbox was ready, s.
        egress: its latest change of network since it was placed.
    """

    model_config = ConfigDict(frozen=True)

    order: OpenTrajectory
    node: str = ""
    generation: str = ""
    home: str = ""
    ready_at: float | None = None
    egress: Egress | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a new leader needs to rebuild its memory."""

    pending: dict[int, bytes]
    grants: dict[str, GrantRecord]
    raws: dict[str, bytes]
    trajectories: dict[str, TrajectoryRecord]
    cancelled: dict[str, float]
    estimates: dict[str, bytes]
    jobs: dict[str, bytes] = field(default_factory=dict)
    quotas: dict[str, bytes] = field(default_factory=dict)
    spent: dict[str, bytes] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    quarantine: dict[str, QuarantineRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inbox:
    """What arrived since the last step: stream entries by id, and fresh messages by seq."""

    control: list[tuple[str, bytes]]
    events: list[tuple[str, bytes]]
    done: list[tuple[str, bytes]]
    messages: list[tuple[int, bytes]]
