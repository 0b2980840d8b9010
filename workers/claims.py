"""The worker's side of the ledger: START claims a grant once, DONE ends it once."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import redis

from tangram_tasks.keys import Keys
from tangram_tasks.wire import DoneRecord

_LUA = Path(__file__).parent / "lua"


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
        self._start = client.register_script((_LUA / "start.lua").read_text())
        self._done = client.register_script((_LUA / "done.lua").read_text())

    def start(self, grant: str) -> bool:
        """Claim a grant; False if it is gone or was claimed before."""
        claim = f"{self._worker}:{uuid4().hex}"
        return bool(self._start(keys=[self._keys.grants, self._keys.running], args=[grant, claim]))

    def holds(self, grant: str) -> bool:
        """Whether the grant still exists: it does not when the scheduler gave this node up meanwhile."""
        return bool(self._client.hexists(self._keys.grants, grant))

    def done(self, record: DoneRecord, *, requeue: bool = False) -> bool:
        """End a grant and tell the scheduler; False if it is not ours to end.

        Args:
            record: how the action ended.
            requeue: put the message back among the pending ones, at its old place.
        """
        keys = self._keys
        return bool(
            self._done(
                keys=[keys.grants, keys.running, keys.raws, keys.done, keys.pending],
                args=[record.grant, self._worker, record.model_dump_json(), int(requeue)],
            )
        )
