"""Runs granted actions on this node: claim, apply, run, take back, end."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any

from celery.exceptions import Ignore, Retry
from redis.exceptions import RedisError

from tangram_tasks import tracing
from tangram_tasks.context import ActionContext
from tangram_tasks.errors import ActionCancelled, ActionTimeout, TangramError
from tangram_tasks.grants import DoneRecord
from tangram_tasks.holding import HeldGrant
from tangram_tasks.report import ActionReport
from tangram_tasks.verdict import Verdict
from tangram_tasks.wire import GRANT_HEADER, HEADER, ActionHeader, GrantHeader
from workers.claims import Claims, Result
from workers.grant_unheld import GrantUnheld
from workers.node import Applied, Node, TryLater
from workers.recollection import Recollection
from workers.request import ActionRequest, GrantRefused

logger = logging.getLogger(__name__)

#: Kills are remembered for so many grants.
_KILLS_KEPT = 1000


class Runtime:
    """The ActionRuntime of a worker process.

    Args:
        node: applies grants.
        claims: the ledger's worker side.
        memory: what is remembered of the last seconds.
    """

    def __init__(self, node: Node, claims: Claims, memory: Recollection) -> None:
        self._node = node
        self._claims = claims
        self._memory = memory
        self._lock = threading.Lock()
        self._ended: dict[str, tuple[str, ActionReport | None, float]] = {}  # by grant id, until its DONE
        self._untold: deque[tuple[DoneRecord, bool]] = deque()  # ends that the broker has not taken yet
        self._killed: OrderedDict[str, None] = OrderedDict()  # grant ids, also of grants still on their way here

    def receive(self, grant: str, request: ActionRequest) -> None:
        """Learn of a message before its grant is claimed."""
        self._memory.receive(grant, request)

    def claim(self, request: Any) -> None:
        """START. Raises GrantRefused when this copy must not run, and the verdict of an action that shall only fail."""
        grant = _grant(request)
        try:
            with self._memory.steady:
                claimed = self._claims.start(grant.id)
                if claimed:
                    self._memory.begin(grant, request.id)
        except (RedisError, OSError) as error:
            logger.warning("action %s cannot be claimed (%s); it will be granted again", request.id, error)
            raise GrantRefused from None
        if not claimed:
            logger.warning(
                "action %s: grant %s is gone, claimed, or not for this process; this copy is dropped",
                request.id,
                grant.id,
            )
            raise GrantRefused
        if found := (request.get(HEADER) or {}).get("verdict"):
            verdict = Verdict.model_validate(found)
            with self._lock:
                self._ended[grant.id] = (verdict.error, None, 0.0)
            raise verdict.as_error()

    def store(self, request: Any, payload: bytes, seconds: int) -> None:
        """Store a result while the grant stands; a final one is remembered. Raises redis.RedisError."""
        grant = _grant(request)
        result = Result(payload, seconds)
        self._memory.result(grant.id, result)
        if not self._surely(lambda: self._claims.store(grant.id, request.id, result)):
            logger.warning("action %s: grant %s is gone; its result is not stored", request.id, grant.id)

    def held(self) -> tuple[HeldGrant, ...]:
        """Everything that is granted here, as the node sees it."""
        return tuple(
            HeldGrant(grant=grant, action=action, units=self._node.units_of(action, grant))
            for grant, action in self._memory.running.items()
        )

    @contextlib.contextmanager
    def resources(self, request: Any) -> Iterator[ActionContext]:
        """Apply the grant around the body, time the parts, and fence the result."""
        grant = _grant(request)
        header = ActionHeader.model_validate(request.get(HEADER))
        clock = _Clock(grant.granted_at)
        applied: Applied | None = None
        outcome, wait = "ok", 0.0
        try:
            with self._node.apply(request.id, header, grant) as applied:
                self._check_killed(request, grant)
                clock.body_starts()
                headers = {name: request.get(name) for name in ("traceparent", "tracestate")}
                tracing.record(f"start {request.task}", headers, grant.granted_at, time.time(), action=request.id)
                try:
                    with tracing.executing(request.task, request.id, headers):
                        yield applied.context
                finally:
                    clock.body_ends()
                self._check_overrun(request, header, applied.context.deadline)
            self._check_killed(request, grant)
        except TryLater as later:
            outcome, wait = "later", later.seconds
            logger.info("action %s is tried again later: %s", request.id, later)
            raise Ignore(str(later)) from None
        except GrantUnheld as error:
            outcome = "refused"
            logger.warning("%s; the scheduler chooses again", error)
            raise Ignore(str(error)) from None
        except BaseException as error:
            outcome = _outcome(error)
            raise
        finally:
            report = clock.report(request.task, self._node.name, header, grant, applied)
            request.tangram_report = report.model_dump(mode="json")
            with self._lock:
                self._ended[grant.id] = (outcome, report, wait)
            self._fence(grant)

    def end(self, grant: GrantHeader, action: str, *, requeue: bool) -> None:
        """DONE, however the action ended."""
        with self._lock:
            outcome, report, wait = self._ended.pop(grant.id, ("ignored", None, 0.0))
        outcome = "requeue" if requeue else outcome
        record = DoneRecord(grant=grant.id, action=action, outcome=outcome, report=report, wait=wait, lane=grant.lane)
        self._tell(record, requeue=outcome in ("requeue", "refused", "later"))

    def tell_late(self) -> None:
        """Tell again what could not be told while the broker was away; called with every heartbeat."""
        for _ in range(len(self._untold)):
            record, requeue = self._untold.popleft()
            self._tell(record, requeue=requeue)

    def _tell(self, record: DoneRecord, *, requeue: bool) -> None:
        try:
            with self._memory.steady:
                told = self._surely(lambda: self._claims.done(record, requeue=requeue))
                self._memory.end(record)
            if not told:
                logger.warning("action %s: grant %s was taken back before it ended", record.action, record.grant)
        except (RedisError, OSError) as error:
            logger.warning("the end of action %s will be told later: %s", record.action, error)
            self._untold.append((record, requeue))

    def kill(self, action: str, grant: str) -> None:
        """Cancel an action that holds a grant: what it runs is killed; if it has not started, it will not."""
        with self._lock:
            self._killed[grant] = None
            while len(self._killed) > _KILLS_KEPT:
                self._killed.popitem(last=False)
        if (
            grant in self._memory.running
        ):  # else it ended, and the action may run here again; or it is checked before its body
            self._node.cancel(action)

    def _surely(self, ask: Callable[[], bool]) -> bool:
        """Ask again after a no: a broker that was restarted may have forgotten the grant, until it is reminded."""
        if ask():
            return True
        self._memory.confirm()
        return ask()

    def _fence(self, grant: GrantHeader) -> None:
        """Nothing of an action may be stored once the scheduler has given its node up and maybe run it again."""
        try:
            held = self._surely(lambda: self._claims.holds(grant.id))
        except (RedisError, OSError) as error:
            logger.warning("whether grant %s still stands is unknown: %s", grant.id, error)
            return
        if not held:
            with self._lock:
                self._ended.pop(grant.id, None)
            self._memory.forget(grant.id)
            raise GrantRefused

    def _check_killed(self, request: Any, grant: GrantHeader) -> None:
        if grant.id in self._killed:
            raise ActionCancelled(f"action {request.id} ({request.task}) was cancelled")

    def _check_overrun(self, request: Any, header: ActionHeader, deadline: float) -> None:
        """A body that outlives its timeout without using its resources cannot be interrupted, but does not pass."""
        late = time.monotonic() - deadline
        if late > 0:
            raise ActionTimeout(
                f"action {request.id} ({request.task}) took {late:.1f} s over {header.spec.timeout:g} s"
            )


class _Clock:
    """Times one action. Wall clock: the grant was timed by another process."""

    def __init__(self, granted_at: float) -> None:
        self._granted = granted_at
        self._start = self._end = 0.0

    def body_starts(self) -> None:
        self._start = self._end = time.time()

    def body_ends(self) -> None:
        self._end = time.time()

    def report(
        self, task: str, node: str, header: ActionHeader, grant: GrantHeader, applied: Applied | None
    ) -> ActionReport:
        now = time.time()
        start, end = (self._start, self._end) if self._start else (now, now)
        usage = applied.usage if applied else None
        return ActionReport(
            task=task,
            node=node,
            key=header.spec.demand.key,
            units=grant.units,
            attempts=grant.attempt,
            queue_s=grant.queue_s,
            sandbox_s=grant.sandbox_s,
            overhead_s=max(0.0, start - self._granted) + max(0.0, now - end),
            exec_s=max(0.0, end - start),
            resize_s=usage.resize_s if usage else 0.0,
            restore_s=usage.restore_s if usage else 0.0,
            page_ins=usage.page_ins if usage else 0,
            cpu_seconds=usage.cpu_seconds if usage else 0.0,
            peak_memory=usage.peak_memory if usage else 0,
            units_over_time=tuple(usage.units_over_time) if usage else (),
            calls=usage.calls if usage else 0,
            sent_at=usage.sent_at if usage else 0.0,
            tokens=usage.tokens if usage else None,
            started_at=start,
            ended_at=end,
        )


def _grant(request: Any) -> GrantHeader:
    return GrantHeader.model_validate(request.get(GRANT_HEADER))


def _outcome(error: BaseException) -> str:
    if isinstance(error, Retry):
        return "retry"
    if isinstance(error, Ignore):
        return "ignored"
    return type(error).__name__ if isinstance(error, TangramError) else "error"
