"""What this node ran in the last seconds, to remind a broker that was killed and forgot them.

With `appendfsync everysec` a killed broker comes back without its last second, also without what it had confirmed.
Then grants exist again that ended, and messages wait again that run. Before its next heartbeat the node says what it
runs and what it ended; a leader does nothing before it has heard that from every node.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from typing import Any
from weakref import WeakValueDictionary

from tangram_tasks.grants import DoneRecord, GrantRecord, message_id, sequence
from tangram_tasks.wire import GRANT_HEADER, GrantHeader
from workers.claims import Claims, Ended, Result, Running
from workers.request import ActionRequest

logger = logging.getLogger(__name__)

#: Ends are remembered this long, s: more than a broker can forget.
KEPT = 10.0
#: Outcomes after which the action runs again.
_AGAIN = ("retry", "requeue", "refused", "later")
#: Bytes of results that are remembered with them.
KEPT_BYTES = 64 * 2**20


class Recollection:
    """Thread safe.

    Args:
        claims: the ledger's worker side.
        node: the node's name.
        generation: of this process.
    """

    def __init__(self, claims: Claims, node: str, generation: str) -> None:
        self._claims = claims
        self._node = node
        self._generation = generation
        self._lock = threading.Lock()
        #: Held while the ledger and this memory change together, so that a reminder tells both before or both after.
        self.steady = threading.RLock()
        self._run = ""
        self._requests: WeakValueDictionary[str, ActionRequest] = WeakValueDictionary()
        self._running: dict[str, tuple[GrantHeader, str]] = {}  # with the action's id
        self._results: dict[str, Result] = {}
        self._ended: deque[tuple[float, Ended]] = deque()

    @property
    def running(self) -> dict[str, str]:
        """The grants that were claimed here and whose end was not told yet, with the ids of their actions."""
        with self._lock:
            return {grant: action for grant, (_, action) in self._running.items()}

    def receive(self, grant: str, request: ActionRequest) -> None:
        """Note the message of a grant that is about to be claimed."""
        self._requests[grant] = request

    def begin(self, grant: GrantHeader, action: str) -> None:
        """Note that a grant was claimed."""
        with self._lock:
            self._running[grant.id] = (grant, action)

    def forget(self, grant: str) -> None:
        """Nothing of a claimed grant counts."""
        with self._lock:
            self._running.pop(grant, None)
            self._results.pop(grant, None)

    def result(self, grant: str, result: Result) -> None:
        """Note a result that is being stored."""
        with self._lock:
            self._results[grant] = result

    def end(self, record: DoneRecord) -> None:
        """Note that the end of a grant was told.

        If messages followed from it (a retry, a callback, the rest of a chain), they may be forgotten as well: then it
        is left to run again.
        """
        now, request = time.monotonic(), self._requests.get(record.grant)
        with self._lock:
            self._running.pop(record.grant, None)
            result = self._results.pop(record.grant, None)
            if request is not None and record.outcome not in _AGAIN and not _led_on(request):
                name = message_id(request.request_dict)
                self._ended.append((now, Ended(record, sequence(record.grant), name, result)))
            self._drop_old(now)

    def confirm(self) -> str:
        """Remind the broker if it was restarted since the last call; returns the run of the broker that knows all.

        Raises redis.RedisError.
        """
        with self.steady:
            run = self._claims.broker_run()
            if self._run not in ("", run):
                self._testify()
            self._run = run
            return run

    def _testify(self) -> None:
        with self._lock:
            self._drop_old(time.monotonic())
            running, ended = list(self._running.values()), [row for _, row in self._ended]
        logger.warning("the broker was restarted: telling it of %d running, %d ended", len(running), len(ended))
        for one in ended:
            self._claims.testify_ended(self._node, one)
        for grant, _ in running:
            request = self._requests.get(grant.id)
            if request is not None:
                self._claims.testify_running(self._node, self._as_running(grant, request))

    def _as_running(self, grant: GrantHeader, request: ActionRequest) -> Running:
        record = GrantRecord(
            seq=sequence(grant.id),
            action=request.id,
            node=self._node,
            generation=self._generation,
            units=grant.units,
            lane=grant.lane,
            at=round(grant.granted_at * 1000),
        )
        return Running(grant.id, record, message_id(request.request_dict), _raw(request))

    def _drop_old(self, now: float) -> None:
        size = sum(len(row.result.payload) for _, row in self._ended if row.result)
        while self._ended and (now - self._ended[0][0] > KEPT or size > KEPT_BYTES):
            _, row = self._ended.popleft()
            size -= len(row.result.payload) if row.result else 0


def _led_on(request: ActionRequest) -> bool:
    """Whether other messages followed from the end of this one."""
    embed = request.embed
    return any(embed.get(name) for name in ("callbacks", "errbacks", "chain", "chord"))


def _raw(request: ActionRequest) -> str:
    """Return the message as it was before it was granted."""
    message: Any = request.message.serializable()
    headers = {name: value for name, value in message["headers"].items() if name != GRANT_HEADER}
    return json.dumps({**message, "headers": headers})
