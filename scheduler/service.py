"""The scheduler process: takes the lead, watches Redis, and runs one step after another.

A step reads everything that arrived, feeds the core, and writes the decisions back in one pipeline. Watchers only
wake the step; they change nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import redis.asyncio as aioredis
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from scheduler.backpressure import Backpressure
from scheduler.books import Books
from scheduler.core.admission import Admission
from scheduler.desk import Desk
from scheduler.facts import Leads, Resigned, Watcher
from scheduler.leader import Leader, LeadLost
from scheduler.ledger import Ledger
from scheduler.nodes import NodeBook
from scheduler.outcomes import Outcomes
from scheduler.record import RecordedAdmission, open_record
from tangram_tasks.app import TangramApp
from tangram_tasks.keys import ADMISSION_QUEUE
from tangram_tasks.settings import without_password

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between tries while the broker does not answer.
IDLE = 0.5


class Clock:
    """Wall clock in ms that never goes back."""

    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> int:
        """Return the time in ms since the epoch."""
        self._last = max(self._last, int(time.time() * 1000))
        return self._last


class Scheduler:
    """One scheduler process, leading or standing by.

    Args:
        app: names the deployment.
        watchers: hear what the leader does.
    """

    def __init__(self, app: TangramApp, watchers: Sequence[Watcher] = ()) -> None:
        self._app = app
        self._watchers = watchers
        self._settings = app.settings
        self._clock = Clock()
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()

    def stop(self) -> None:
        """Ask for an orderly end; grants stay, the next leader finds them."""
        self._stop.set()
        self._wake.set()

    async def run(self) -> None:
        """Lead whenever nobody else does, until `stop`. Survives a broker that goes away and comes back."""
        client = aioredis.Redis.from_url(self._app.url, socket_connect_timeout=5, socket_timeout=30)
        leader = Leader(client, self._app.keys, self._settings.leader_lease)
        try:
            while not self._stop.is_set():
                try:
                    await self._lead(client, leader)
                except LeadLost as loss:
                    logger.warning("%s; standing by", loss)
                except (RedisError, OSError) as error:
                    if _is_fenced(error):
                        logger.warning("another scheduler leads; standing by")
                        continue
                    logger.warning("the broker %s does not answer: %s", without_password(self._app.url), error)
                    await asyncio.sleep(IDLE)
        finally:
            with contextlib.suppress(RedisError, OSError):
                await leader.resign()
            await client.aclose()

    async def _lead(self, client: aioredis.Redis, leader: Leader) -> None:
        epoch = await self._unless_stopped(leader.acquire())
        if epoch is not None:
            with self._core() as core:
                await self._lead_epoch(client, leader, epoch, core)

    async def _lead_epoch(self, client: aioredis.Redis, leader: Leader, epoch: int, core: Admission) -> None:
        ledger = Ledger(client, self._app.keys, epoch)
        await ledger.load()
        books = Books(
            ledger=ledger,
            core=core,
            nodes=NodeBook(self._settings.node_timeout),
            outcomes=Outcomes(self._app, epoch),
            clock=self._clock,
            watchers=self._watchers,
            start_lease=self._settings.start_lease,
            backpressure=Backpressure(self._settings.max_waiting, self._settings.max_waiting_per_job),
        )
        desk = Desk(books)
        books.tell(Leads(books))
        try:
            await _first_to_end(
                self._work(desk, f"{leader.name} leads in epoch {epoch}, policy {self._settings.policy}"),
                leader.keep(),
                self._watch_admission(client, desk),
                self._watch_streams(client),
            )
        finally:
            books.tell(Resigned())

    @contextlib.contextmanager
    def _core(self) -> Iterator[Admission]:
        asked = self._settings
        if asked.record is None:
            yield Admission(asked.policy, asked.depth, gpu_policy=asked.gpu_policy)
            return
        with open_record(asked.record) as file:
            yield RecordedAdmission(file, asked.policy, asked.depth, gpu_policy=asked.gpu_policy)

    async def _work(self, desk: Desk, greeting: str) -> None:
        """Recover, then step until stopped; the lease is kept meanwhile, since recovering may take longer than it."""
        await desk.recover()
        logger.info(greeting)
        while not self._stop.is_set():
            busy = await desk.step()
            self._idle.set()
            if busy:
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(desk.seconds_to_next_look()):
                    await self._wake.wait()
            self._wake.clear()

    async def _watch_admission(self, client: aioredis.Redis, desk: Desk) -> None:
        """Wake when the admission list is not empty, by rotating it in place: nothing is ever taken out here."""
        while True:
            if desk.paused:
                await asyncio.sleep(IDLE)
                continue
            try:
                found = await client.blmove(ADMISSION_QUEUE, ADMISSION_QUEUE, 1, "RIGHT", "RIGHT")
            except OutOfMemoryError:  # a full broker refuses even this; what it holds must still end
                await asyncio.sleep(IDLE)
                continue
            if found is not None:
                await self._wake_and_wait()

    async def _watch_streams(self, client: aioredis.Redis) -> None:
        """Wake when a worker or a client wrote to one of the streams."""
        keys = self._app.keys
        while True:
            if await client.xread({keys.control: "0", keys.done: "0", keys.events: "0"}, count=1, block=1000):
                await self._wake_and_wait()

    async def _wake_and_wait(self) -> None:
        self._idle.clear()
        self._wake.set()
        await self._idle.wait()

    async def _unless_stopped(self, acquiring: Coroutine[Any, Any, int]) -> int | None:
        async def stopped() -> None:
            await self._stop.wait()

        return await _first_to_end(acquiring, stopped())


async def _first_to_end(*work: Coroutine[Any, Any, T]) -> T:
    """Run all at once; when the first ends, cancel the others and return its result or raise its error."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end_all(tasks)
    return next(iter(done)).result()


async def _end_all(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel until all have ended: before Python 3.12 a `wait_for` inside may swallow a cancellation."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.2)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # the first one's error is what counts; asyncio would complain of the others


def _is_fenced(error: Exception) -> bool:
    return isinstance(error, ResponseError) and "FENCED" in str(error)
