"""Which nodes live: compares what they announced with what was known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.core.events import NodeJoined
from scheduler.core.quota import Quota, Window
from tangram_tasks.sharing import QuotaRecord
from tangram_tasks.wire import NodeRecord

#: A call may reach a provider later than another that left with it by this share of a window, but at least and at
#: most so many seconds. So much of the rate is given up to never exceed it.
MARGIN, LEAST_MARGIN, MOST_MARGIN = 0.005, 0.02, 0.5


@dataclass(slots=True)
class NodeBook:
    """The live nodes by name.

    Args:
        timeout: seconds of silence after which a node is lost.
    """

    timeout: float
    alive: dict[str, NodeRecord] = field(default_factory=dict)

    def update(self, announced: Mapping[str, NodeRecord], now: float) -> tuple[list[NodeRecord], list[NodeRecord]]:
        """Return the nodes that were lost, and those that joined or changed, in that order of acting on them.

        A node whose generation changed is lost and joins again: the old process's grants are gone. `now` is the
        Redis server's clock, s.
        """
        fresh = {name: record for name, record in announced.items() if now - record.beat <= self.timeout}
        lost = [
            record
            for name, record in self.alive.items()
            if name not in fresh or fresh[name].generation != record.generation
        ]
        gone = {record.node for record in lost}
        joined = [
            record
            for name, record in fresh.items()
            if name in gone or name not in self.alive or _offer(record) != _offer(self.alive[name])
        ]
        self.alive = fresh
        return lost, joined

    def silent(self, announced: Mapping[str, NodeRecord], now: float) -> bool:
        """Whether a live node that is still announced has not been heard for longer than the timeout."""
        return any(name in announced and now - announced[name].beat > self.timeout for name in self.alive)

    def holds(self, node: str, trajectory: str) -> bool:
        """Whether a live node announced that it holds the trajectory's sandbox."""
        record = self.alive.get(node)
        return record is not None and trajectory in record.trajectories

    def runs(self, node: str, grant: str) -> bool:
        """Whether a live node announced that it runs what this grant is for."""
        record = self.alive.get(node)
        return record is not None and grant in record.running

    def generation(self, node: str) -> str:
        """Return a live node's generation, or "" if it is not alive."""
        record = self.alive.get(node)
        return record.generation if record else ""


def _offer(record: NodeRecord) -> tuple[bool, dict[str, int]]:
    """What the core must hear of when it changes."""
    return record.draining, record.capacity


def quota_of(record: QuotaRecord) -> Quota:
    """Return what a provider allows in the core's words."""
    windows = (
        Window(limit=row.limit, ms=math.ceil(row.seconds * 1000), counts=row.counts, margin=_margin(row.seconds))
        for row in record.windows
    )
    return Quota(
        concurrency=record.concurrency,
        per_second=record.per_second,
        burst=record.burst,
        windows=tuple(windows),
        adaptive=record.adaptive,
        keys=record.keys,
    )


def _margin(seconds: float) -> int:
    """Return by how many ms a call may be slower on its way than the one a window later."""
    return round(min(MOST_MARGIN, max(LEAST_MARGIN, MARGIN * seconds)) * 1000)


def joined_event(record: NodeRecord, at: int, *, cordoned: bool = False) -> NodeJoined:
    """Return the core's event for a node that announced itself; `at` in ms. A cordoned one takes nothing new."""
    quotas = {} if cordoned else {name: quota_of(quota) for name, quota in record.quotas.items()}
    return NodeJoined(
        at=at,
        node=record.node,
        kind=record.kind,
        capacity=dict(record.capacity),
        quotas=quotas,
        services=record.services,
        draining=record.draining or cordoned,
    )
