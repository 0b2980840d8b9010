"""A snapshot of what is shared: API providers with their limits, and RL jobs with their shares."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from tangram_tasks.keys import Keys
from tangram_tasks.sharing import JobRecord, ProviderRecord, QuotaRecord
from tangram_tasks.wire import HEADER, NodeRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from redis import Redis


class ProviderStatus(BaseModel):
    """One provider.

    Args:
        name: its name.
        quota: what counts for each of our keys.
        by_hand: somebody set that.
        nodes: which can call it.
        in_flight: calls in flight.
        concurrency: calls that may be in flight now, over all keys; for one whose limit is learned, what was learned.
        closed_s: for how many seconds it wants no calls; 0 if it does. With several keys: the one that opens first.
    """

    name: str
    quota: QuotaRecord
    by_hand: bool
    nodes: list[str]
    in_flight: int
    concurrency: int
    closed_s: float


class JobStatus(BaseModel):
    """One job: its record, and how many of its actions wait and hold a grant."""

    name: str
    record: JobRecord
    waiting: int
    granted: int


def read_providers(client: Redis, keys: Keys) -> list[ProviderStatus]:
    """Return all providers, by name. Raises redis.RedisError."""
    pipe = client.pipeline(transaction=False)
    pipe.time()
    for key in (keys.nodes, keys.quotas, keys.spent):
        pipe.hgetall(key)
    (seconds, microseconds), nodes, by_hand, spent = pipe.execute()
    now = seconds + microseconds / 1e6
    announced: dict[str, QuotaRecord] = {}
    offering: dict[str, list[str]] = {}
    for node in _records(NodeRecord, nodes.values()):
        announced |= node.quotas
        for name in node.quotas:
            offering.setdefault(name, []).append(node.node)
    set_by_hand = {name.decode(): QuotaRecord.model_validate_json(row) for name, row in by_hand.items()}
    lanes = {name.decode(): ProviderRecord.model_validate_json(row).lanes for name, row in spent.items()}
    rows = []
    for name, declared in sorted(announced.items()):
        quota = set_by_hand.get(name, declared).model_copy(update={"keys": declared.keys})
        mine = lanes.get(name, ())[: quota.keys]
        rows.append(
            ProviderStatus(
                name=name,
                quota=quota,
                by_hand=name in set_by_hand,
                nodes=sorted(offering[name]),
                in_flight=sum(lane.in_flight for lane in mine),
                concurrency=sum(lane.concurrency for lane in mine) or quota.concurrency * quota.keys,
                closed_s=max(0.0, min((lane.closed_until / 1000 - now for lane in mine), default=0.0)),
            )
        )
    return rows


def read_jobs(client: Redis, keys: Keys) -> list[JobStatus]:
    """Return all jobs that are known, by name. Raises redis.RedisError."""
    pipe = client.pipeline(transaction=False)
    for key in (keys.jobs, keys.pending, keys.raws):
        pipe.hgetall(key)
    jobs, pending, granted = pipe.execute()
    waits, holds = _by_job(pending.values()), _by_job(granted.values())
    return [
        JobStatus(
            name=name.decode(),
            record=JobRecord.model_validate_json(row),
            waiting=waits[name.decode()],
            granted=holds[name.decode()],
        )
        for name, row in sorted(jobs.items())
    ]


def _by_job(messages: Iterable[bytes]) -> Counter[str]:
    """Count messages by the job in their header; whoever has none is not counted."""
    count: Counter[str] = Counter()
    for raw in messages:
        try:
            header: Any = json.loads(raw)["headers"][HEADER]
            count[str(header["job"])] += 1
        except (ValueError, LookupError, TypeError):
            continue
    return count


def _records(model: type[NodeRecord], rows: Iterable[bytes]) -> list[NodeRecord]:
    records = []
    for row in rows:
        try:
            records.append(model.model_validate_json(row))
        except ValidationError:  # written by another version
            continue
    return records
