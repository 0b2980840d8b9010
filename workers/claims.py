"""The worker's side of the ledger: START claims a grant once, DONE ends it once, and results are stored between."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import redis

from tangram_tasks.grants import DoneRecord, GrantRecord
from tangram_tasks.keys import Keys, result_key

_LUA = Path(__file__).parent / "lua"

#: An end that the broker had forgotten keeps other copies of its message out for so long, s.
ENDED_MEMORY = 3600


@dataclass(frozen=True, slots=True)
class Running:
    """A claimed grant.

    Args:
        grant: its id.
        record: the grant.
        message: what names its message, see `tangram_tasks.grants.message_id`.
        raw: the message itself, as it was published.
    """

    grant: str
    record: GrantRecord
    message: str
    raw: str


@dataclass(frozen=True, slots=True)
class Result:
    """A stored result: Celery's encoded metadata, and how long it is kept, s."""

    payload: bytes
    seconds: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A grant that ended here.

    Args:
        record: as it was told.
        seq: the action's place in the order of arrival.
        message: what names its message.
        result: its result, if one was stored.
    """

    record: DoneRecord
    seq: int
    message: str
    result: Result | None


class Claims:
    """Claims and ends grants for one node process.

    Args:
        client: the deployment's Redis.
        keys: names.
        worker: this process's generation; only the claimer may end a claimed grant.
    """

    def __init__(self, client: redis.Redis, keys: Keys, worker: str) -> None:
        self._client = client
        self._keys = keys
        self._worker = worker
        names = ("start", "store", "done", "testify_running", "testify_ended")
        self._scripts: dict[str, Any] = {
            name: client.register_script((_LUA / f"{name}.lua").read_text()) for name in names
        }

    def start(self, grant: str) -> bool:
        """Claim a grant; False if it is gone, was claimed before, or went to an earlier process of this node."""
        claim = f"{self._worker}:{uuid4().hex}"
        return bool(
            self._scripts["start"](keys=[self._keys.grants, self._keys.running], args=[grant, claim, self._worker])
        )

    def holds(self, grant: str) -> bool:
        """Whether the grant still exists: it does not when the scheduler gave this node up meanwhile."""
        return bool(self._client.hexists(self._keys.grants, grant))

    def store(self, grant: str, action: str, result: Result) -> bool:
        """Store an action's result; False if its grant is gone, and then nothing is stored."""
        keys = [self._keys.grants, result_key(action)]
        return bool(self._scripts["store"](keys=keys, args=[grant, result.payload, result.seconds]))

    def done(self, record: DoneRecord, *, requeue: bool = False) -> bool:
        """End a grant and tell the scheduler; False if it is not ours to end.

        Args:
            record: how the action ended.
            requeue: put the message back among the pending ones, at its old place.
        """
        keys = self._keys
        return bool(
            self._scripts["done"](
                keys=[keys.grants, keys.running, keys.raws, keys.done, keys.pending],
                args=[record.grant, self._worker, record.model_dump_json(), int(requeue)],
            )
        )

    def broker_run(self) -> str:
        """Return what names this run of the broker."""
        info: Any = self._client.info("server")
        return str(info["run_id"])

    def testify_running(self, node: str, running: Running) -> bool:
        """Tell a broker that may have forgotten it that a grant runs here; False if the node was given up."""
        keys, record = self._keys, running.record
        return bool(
            self._scripts["testify_running"](
                keys=[keys.nodes, keys.grants, keys.running, keys.raws, keys.pending],
                args=[
                    *(node, running.grant, f"{self._worker}:again", record.model_dump_json()),
                    *(running.raw, record.seq, record.action),
                ],
            )
        )

    def testify_ended(self, node: str, ended: Ended) -> bool:
        """Tell a broker that may have forgotten it that a grant ended here; False if the node was given up."""
        keys, record, result = self._keys, ended.record, ended.result
        return bool(
            self._scripts["testify_ended"](
                keys=[
                    *(keys.nodes, keys.grants, keys.running, keys.raws, keys.pending, keys.ended, keys.done),
                    result_key(record.action),
                ],
                args=[
                    *(node, record.grant, record.model_dump_json(), ended.seq, record.action, ended.message),
                    *(time.time() + ENDED_MEMORY, result.payload if result else "", result.seconds if result else 0),
                ],
            )
        )
