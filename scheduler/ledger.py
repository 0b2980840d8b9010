"""The durable books in Redis: every change is a fenced Lua script; memory is only a cache of this.

Rules (docs/design.md, "Ledger"): a message is pending, granted or ended, in one step each; a scheduler that lost the
lead can change nothing; a grant ends once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import redis.asyncio as aioredis
from pydantic import ValidationError

from scheduler.quarantine import QuarantineRecord
from scheduler.stored import Inbox, Snapshot, TrajectoryRecord
from tangram_tasks.grants import GrantRecord
from tangram_tasks.keys import ADMISSION_QUEUE, Keys, result_key
from tangram_tasks.orders import NodeOrder
from tangram_tasks.wire import NodeRecord

logger = logging.getLogger(__name__)

_LUA = Path(__file__).parent / "lua"
_PLAIN = "fenced"  # the script that runs plain commands

#: Cancelled ids are remembered this long, s: a message still on its way must find them.
CANCEL_MEMORY = 3600


class Ledger:
    """Reads and writes the books for one leader.

    Args:
        client: the deployment's Redis.
        keys: names.
        epoch: the leader's fencing token.
    """

    def __init__(self, client: aioredis.Redis, keys: Keys, epoch: int) -> None:
        self.client = client
        self.keys = keys
        self.epoch = epoch
        self.scripts: dict[str, str] = {}  # name -> hash

    async def snapshot(self) -> Snapshot:
        """Read all books; what was to be remembered until now is forgotten."""
        keys = self.keys
        pipeline = self.client.pipeline(transaction=True)
        named = (keys.estimates, keys.jobs, keys.quotas, keys.spent, keys.quarantine)
        for key in (keys.pending, keys.grants, keys.raws, keys.trajectories, *named):
            pipeline.hgetall(key)
        pipeline.zrange(keys.cancelled, 0, -1, withscores=True)
        pipeline.zremrangebyscore(keys.ended, "-inf", time.time())
        pipeline.zrange(keys.ended, 0, -1)
        pending, grants, raws, trajectories, *tables, cancelled, _, ended = await pipeline.execute()
        estimates, jobs, quotas, spent, quarantine = (
            {name.decode(): row for name, row in table.items()} for table in tables
        )
        return Snapshot(
            pending={int(seq): raw for seq, raw in pending.items()},
            grants={grant.decode(): GrantRecord.model_validate_json(record) for grant, record in grants.items()},
            raws={grant.decode(): raw for grant, raw in raws.items()},
            trajectories={
                name.decode(): TrajectoryRecord.model_validate_json(record) for name, record in trajectories.items()
            },
            cancelled={action.decode(): expiry for action, expiry in cancelled},
            estimates=estimates,
            jobs=jobs,
            quotas=quotas,
            spent=spent,
            ended={message.decode() for message in ended},
            quarantine={node: QuarantineRecord.model_validate_json(record) for node, record in quarantine.items()},
        )

    async def load(self) -> None:
        """Load the scripts into Redis; call once, before anything else.

        They are then called by hash without asking each time whether they are there. Should they be gone (Redis was
        restarted), the call fails, the lead is taken anew, and they are loaded again.
        """
        for path in sorted(_LUA.glob("*.lua")):
            self.scripts[path.stem] = await self.client.script_load(path.read_text())

    async def inbox(self, limit: int, *, messages: bool = True) -> Inbox:
        """Take up to `limit` fresh messages into pending and as many entries of each stream, in one round trip.

        Without `messages`, those stay where they are.
        """
        keys = self.keys
        names = [keys.epoch, ADMISSION_QUEUE, keys.seq, keys.pending, keys.control, keys.events, keys.done]
        answer: Any = self.client.evalsha(self.scripts["inbox"], len(names), *names, self.epoch, limit, int(messages))
        taken, *streams = await answer
        control, events, done = ([(entry.decode(), fields[1]) for entry, fields in rows] for rows in streams)
        return Inbox(control, events, done, list(zip(map(int, taken[::2]), taken[1::2], strict=True)))

    async def nodes(self) -> tuple[dict[str, NodeRecord], float]:
        """Return the announced nodes and the Redis server's clock, s."""
        pipeline = self.client.pipeline(transaction=False)
        pipeline.hgetall(self.keys.nodes)
        pipeline.time()
        rows, (seconds, microseconds) = await pipeline.execute()
        records = {}
        for name, row in rows.items():
            try:
                records[name.decode()] = NodeRecord.model_validate_json(row)
            except ValidationError as error:
                logger.warning("the announcement of node %s is ignored: %s", name, error)
        return records, seconds + microseconds / 1e6

    async def now(self) -> float:
        """Return the Redis server's clock, s."""
        seconds, microseconds = await self.client.time()
        return float(seconds + microseconds / 1e6)

    async def broker_run(self) -> str:
        """Return what names this run of the broker; a new one may have forgotten the last second of the one before."""
        return str((await self.client.info("server"))["run_id"])

    async def control_backlog(self) -> list[tuple[str, bytes]]:
        """Return the control messages that no leader has acted upon yet, with their ids."""
        rows: Any = await self.client.xrange(self.keys.control)
        return [(entry.decode(), fields[b"m"]) for entry, fields in rows]

    async def paused(self) -> bool:
        """Return whether somebody has paused admission."""
        return bool(await self.client.exists(self.keys.paused))

    async def recorded(self, action: str) -> bytes | None:
        """Return the stored result of an action as Celery's backend wrote it, or None."""
        found: Any = await self.client.get(result_key(action))
        return None if found is None else bytes(found)

    async def running(self, grants: list[str]) -> set[str]:
        """Return those of the grants that a worker has claimed."""
        if not grants:
            return set()
        claimed = await self.client.hmget(self.keys.running, grants)
        return {grant for grant, worker in zip(grants, claimed, strict=True) if worker is not None}

    def batch(self) -> Batch:
        """Return an empty set of changes."""
        return Batch(self)


class Batch:
    """Changes that go to Redis in one pipeline. `commit` returns the answers of grant, ungrant and resize, in order."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._keys = ledger.keys
        self._calls: list[tuple[str, list[str], list[Any]]] = []

    def grant(self, grant: str, record: GrantRecord, queue: str, copy: str) -> None:
        """Pending -> granted, delivered to the node's queue."""
        keys = self._keys
        self._calls.append(
            (
                "grant",
                [keys.epoch, keys.pending, keys.grants, keys.raws, queue],
                [record.seq, grant, record.model_dump_json(), copy],
            )
        )

    def ungrant(self, grant: str, seq: int, raw: str = "", *, only_unstarted: bool = False) -> None:
        """Granted -> pending with this raw message, or -> ended without one."""
        keys = self._keys
        self._calls.append(
            (
                "ungrant",
                [keys.epoch, keys.grants, keys.running, keys.raws, keys.pending],
                [grant, int(only_unstarted), seq, raw],
            )
        )

    def resize(self, grant: str, record: GrantRecord) -> None:
        """Note what a grant holds now."""
        self._calls.append(("resize", [self._keys.epoch, self._keys.grants], [grant, record.model_dump_json()]))

    def pend(self, seq: int, raw: str) -> None:
        """Put another raw message in the place of a pending one."""
        self._plain(["HSET", self._keys.pending, str(seq), raw])

    def quarantine(self, node: str, record: QuarantineRecord) -> None:
        """Write that a node is in quarantine."""
        self._plain(["HSET", self._keys.quarantine, node, record.model_dump_json()])

    def end_quarantine(self, node: str) -> None:
        """Forget a node's quarantine."""
        self._plain(["HDEL", self._keys.quarantine, node])

    def drop(self, seq: int) -> None:
        """Pending -> ended."""
        self._plain(["HDEL", self._keys.pending, str(seq)])

    def bury(self, raw: bytes | str, reason: str) -> None:
        """Keep a message that could not be admitted for people to look at; the last 1000 are kept."""
        text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
        row = json.dumps({"id": uuid4().hex[:8], "at": time.time(), "reason": reason, "raw": text})
        self._plain(["LPUSH", self._keys.dead, row], ["LTRIM", self._keys.dead, "0", "999"])

    def trajectory(self, name: str, record: TrajectoryRecord) -> None:
        """Write a trajectory's record."""
        self._plain(["HSET", self._keys.trajectories, name, record.model_dump_json()])

    def end_trajectory(self, name: str) -> None:
        """Forget a trajectory."""
        self._plain(["HDEL", self._keys.trajectories, name])

    def estimate(self, name: str, row: str | None) -> None:
        """Write what was learned of a kind of action, or forget it."""
        key = self._keys.estimates
        self._plain(["HDEL", key, name] if row is None else ["HSET", key, name, row])

    def answer(self, question: str, text: str, seconds: int) -> None:
        """Leave an answer for who asked, for so many seconds."""
        key = self._keys.answer(question)
        self._plain(["RPUSH", key, text], ["EXPIRE", key, str(seconds)])

    def note(self, key: str, name: str, row: str | None) -> None:
        """Write one row of a hash, or take it out."""
        self._plain(["HDEL", key, name] if row is None else ["HSET", key, name, row])

    def order(self, node: str, order: NodeOrder) -> None:
        """Tell a node to do something."""
        self._plain(["RPUSH", self._keys.orders(node), order.model_dump_json()])

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter for people."""
        self._plain(["HINCRBY", self._keys.counters, name, str(by)])

    def remember_cancelled(self, action: str, now: float) -> None:
        """Note an id that may still be on its way in."""
        self._plain(["ZADD", self._keys.cancelled, repr(now + CANCEL_MEMORY), action])
        self._plain(["ZREMRANGEBYSCORE", self._keys.cancelled, "-inf", repr(now)])

    def pause(self, paused: bool) -> None:
        """Note for the next leader whether admission is paused."""
        self._plain(["SET", self._keys.paused, "1"] if paused else ["DEL", self._keys.paused])

    def forget_node(self, node: str, queue: str, *, record: bool) -> None:
        """Empty a lost node's queues; with `record`, its announcement too."""
        self._plain(["DEL", queue], ["DEL", self._keys.orders(node)])
        if record:
            self._plain(["HDEL", self._keys.nodes, node])

    def read(self, stream: str, entries: Iterable[str]) -> None:
        """Delete stream entries that were acted upon."""
        if ids := list(entries):
            self._plain(["XDEL", stream, *ids])

    async def commit(self) -> list[int]:
        """Send everything, in the order in which it was asked for.

        Returns the answers of grant, ungrant and resize. Raises redis ResponseError "FENCED" when another leads.
        """
        if not self._calls:
            return []
        ledger, pipeline = self._ledger, self._ledger.client.pipeline(transaction=False)
        for name, keys, args in self._calls:
            sent = [json.dumps(args)] if name == _PLAIN else args
            pipeline.evalsha(ledger.scripts[name], len(keys), *keys, ledger.epoch, *sent)
        answers = await pipeline.execute()
        return [int(answer) for (name, _, _), answer in zip(self._calls, answers, strict=True) if name != _PLAIN]

    def _plain(self, *commands: list[str]) -> None:
        """Plain commands that follow each other go into one script call."""
        if not self._calls or self._calls[-1][0] != _PLAIN:
            self._calls.append((_PLAIN, [self._keys.epoch], []))
        self._calls[-1][2].extend(commands)
