"""A snapshot of a deployment as Redis knows it: who leads, which nodes live, what waits and what runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from tangram_tasks.keys import ADMISSION_QUEUE, Keys
from tangram_tasks.wire import NodeRecord

if TYPE_CHECKING:
    from redis import Redis


class NodeStatus(BaseModel):
    """One node.

    Args:
        record: what it announced.
        age: seconds since its last heartbeat, by the Redis server's clock.
        alive: that is less than the time after which it counts as lost.
        quarantined_s: seconds for which it gets nothing new, since it started nothing; 0: it is not in quarantine.
        quarantines: how often this process was in quarantine.
    """

    record: NodeRecord
    age: float
    alive: bool
    quarantined_s: float = 0.0
    quarantines: int = 0


class Status(BaseModel):
    """A deployment at one moment.

    Args:
        leader: the scheduler that leads, or None.
        nodes: by name; lost ones too, as long as their record stands.
        incoming: messages that no scheduler has taken in yet.
        waiting: actions that wait for a grant.
        granted: grants that have not ended.
        running: those of them that a worker has started.
        trajectories: open ones.
        refused: messages that could not be admitted.
    """

    leader: str | None
    nodes: list[NodeStatus]
    incoming: int
    waiting: int
    granted: int
    running: int
    trajectories: int
    refused: int

    @property
    def alive(self) -> bool:
        """Whether anything runs: a leader, or a node."""
        return self.leader is not None or any(node.alive for node in self.nodes)


def read_status(client: Redis, keys: Keys, *, node_timeout: float) -> Status:
    """Read a snapshot in one round trip.

    Args:
        client: connection to the broker.
        keys: names in Redis.
        node_timeout: seconds of silence after which a node counts as lost.

    Raises:
        redis.RedisError: the broker does not answer.
    """
    pipe = client.pipeline(transaction=False)
    pipe.time()
    pipe.get(keys.leader)
    pipe.hgetall(keys.nodes)
    pipe.hgetall(keys.quarantine)
    pipe.llen(ADMISSION_QUEUE)
    for name in (keys.pending, keys.grants, keys.running, keys.trajectories):
        pipe.hlen(name)
    pipe.llen(keys.dead)
    (seconds, microseconds), leader, records, quarantine, incoming, waiting, granted, running, trajectories, refused = (
        pipe.execute()
    )
    now = seconds + microseconds / 1e6
    return Status(
        leader=leader.decode() if leader else None,
        nodes=_nodes(records, quarantine, now, node_timeout),
        incoming=incoming,
        waiting=waiting,
        granted=granted,
        running=running,
        trajectories=trajectories,
        refused=refused,
    )


def _nodes(
    records: dict[bytes, bytes], quarantine: dict[bytes, bytes], now: float, node_timeout: float
) -> list[NodeStatus]:
    nodes = []
    for name, raw in sorted(records.items()):
        try:
            record = NodeRecord.model_validate_json(raw)
        except ValidationError:  # written by another version: not a node of this deployment's kind
            continue
        age = max(0.0, now - record.beat)
        status = NodeStatus(record=record, age=age, alive=age < node_timeout)
        if name in quarantine:
            until, times = (json.loads(quarantine[name])[field] for field in ("until", "times"))
            left = max(0.0, until / 1000 - now)
            status = status.model_copy(update={"quarantined_s": left, "quarantines": times})
        nodes.append(status)
    return nodes
