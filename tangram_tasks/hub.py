"""One hub per event loop: publishes actions in batches and wakes every waiter from one subscription.

Never one thread, one connection or one Redis command per waiter. Results come by pubsub; one MGET right after a
SUBSCRIBE closes the race with a fast action, and one MGET of everything outstanding every 2 s covers whatever pubsub
lost, so no trouble with the subscription is more than a delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import redis.asyncio as aioredis
from celery import Task, states
from celery.result import EagerResult
from redis.exceptions import RedisError

from tangram_tasks.control import stream_entry
from tangram_tasks.control_messages import CancelAction, ControlMessage
from tangram_tasks.deployment import Deployment
from tangram_tasks.errors import ActionCancelled
from tangram_tasks.handle import ActionHandle
from tangram_tasks.keys import ADMISSION_QUEUE
from tangram_tasks.publisher import EnvelopeProducer

logger = logging.getLogger(__name__)

FLUSH_MESSAGES = 64
RESYNC_SECONDS = 2.0
#: Pause after trouble with the broker, s.
PAUSE = 0.5

_CHANNEL = "celery-task-meta-"
_NOBODY = "tangram-hub"  # a channel that keeps the subscription alive while nobody waits

Meta = dict[str, Any]

_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Hub]] = WeakKeyDictionary()


def hub_of(app: Deployment) -> Hub:
    """Return the hub of this app in the running event loop."""
    hubs = _hubs.setdefault(asyncio.get_running_loop(), {})
    if id(app) not in hubs:
        hubs[id(app)] = Hub(app)
    return hubs[id(app)]


class Hub:
    """Publisher and result pump of one event loop.

    Args:
        app: names the broker; its backend decodes results.
    """

    def __init__(self, app: Deployment) -> None:
        self._app = app
        self._producer = EnvelopeProducer()
        pool = aioredis.BlockingConnectionPool.from_url(
            app.url, max_connections=8, timeout=30, socket_timeout=30, socket_connect_timeout=5
        )
        self._client = aioredis.Redis.from_pool(pool)
        self._subscription: Any = None  # the listener's; others only write to its connection
        self._outbox: asyncio.Queue[tuple[str, str, asyncio.Future[None]]] = asyncio.Queue()
        self._waiting: dict[str, list[asyncio.Future[Meta]]] = {}  # calls with the same key wait for the same action
        self._wanted = asyncio.Event()  # somebody waits for a result: listen
        self._tasks: set[asyncio.Task[Any]] = set()
        for turn in (self._publish, self._listen, self._resync):
            self.spawn(self._keep_on(turn))

    async def submit(self, task: Task[Any, Any], args: Any, kwargs: Any, options: dict[str, Any]) -> ActionHandle:
        """Publish one action. Raises InvalidAction, BrokerUnavailable.

        With `ignore_result` the handle is done at once, with None.
        """
        loop = asyncio.get_running_loop()
        result: Any = task.apply_async(args, kwargs, producer=self._producer, **options)
        sent: asyncio.Future[None] = loop.create_future()
        meta: asyncio.Future[Meta] = loop.create_future()
        handle = ActionHandle(self, result.id, meta)
        if isinstance(result, EagerResult):
            meta.set_result({"status": result.state, "result": result.result, "task_id": result.id})
            return handle
        if options.get("ignore_result", task.ignore_result):
            meta.set_result({"status": states.SUCCESS, "result": None, "task_id": result.id})
        else:
            self._waiting.setdefault(result.id, []).append(meta)
        envelope = self._producer.take()
        if not envelope:  # its outcome is recorded already
            await self._fetch([result.id])
            return handle
        self._outbox.put_nowait((result.id, envelope, sent))
        try:
            await sent
        except BaseException:
            self._give_up(result.id, meta)
            if sent.done() and not sent.cancelled() and sent.exception() is None:
                self.spawn(self.control(CancelAction(action=result.id)))  # it is out already
            raise
        return handle

    def _give_up(self, action: str, meta: asyncio.Future[Meta]) -> None:
        waiting = self._waiting.get(action, [])
        if meta in waiting:
            waiting.remove(meta)
        if not waiting:
            self._waiting.pop(action, None)

    async def control(self, message: ControlMessage) -> None:
        """Tell the scheduler something. Raises BrokerUnavailable."""
        try:
            await self._client.xadd(self._app.keys.control, stream_entry(message))
        except (RedisError, OSError) as error:
            raise self._app.unavailable(error) from error

    def outcome(self, meta: Meta) -> Any:
        """Return the result in Celery's metadata, or raise the error in it."""
        if meta["status"] == states.SUCCESS:
            return meta["result"]
        error = meta["result"]
        if not isinstance(error, BaseException):
            error = self._app.backend.exception_to_python(error)
        if meta["status"] == states.REVOKED and not isinstance(error, ActionCancelled):
            raise ActionCancelled(f"action {meta.get('task_id')} was cancelled: {error}")
        raise error

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run in the background, for as long as the event loop runs."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Stop, and close the connections. Waiters are cancelled."""
        while pending := [task for task in self._tasks if not task.done()]:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending, timeout=0.2)
        await self._close()

    async def _keep_on(self, turn: Callable[[], Awaitable[None]]) -> None:
        """Take turns until the loop ends. Trouble is logged and tried again: nobody must wait for a dead hub."""
        try:
            while not _is_ending():
                try:
                    await turn()
                except Exception as error:  # noqa: BLE001  # whatever it is, nobody may wait for a dead hub
                    logger.warning("results: %s; trying again", self._app.unavailable(error))
                    await asyncio.sleep(PAUSE)
        finally:
            if turn == self._publish:  # one of the three cleans up when asyncio ends them all
                await self._close()

    async def _close(self) -> None:
        _hubs.get(asyncio.get_running_loop(), {}).pop(id(self._app), None)
        for meta in itertools.chain.from_iterable(self._waiting.values()):
            meta.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await self._client.aclose()

    # -- publishing

    async def _publish(self) -> None:
        batch = [await self._outbox.get()]
        await asyncio.sleep(0)  # whatever else is ready to publish comes along
        while len(batch) < FLUSH_MESSAGES and not self._outbox.empty():
            batch.append(self._outbox.get_nowait())
        batch = [row for row in batch if not row[2].done()]  # its caller was cancelled before it was sent
        if not batch:
            return
        try:
            await self._client.lpush(ADMISSION_QUEUE, *(envelope for _, envelope, _ in batch))
        except Exception as error:  # noqa: BLE001  # redis-py raises more than its own errors when a connection dies
            for _, _, sent in batch:
                if not sent.done():
                    sent.set_exception(self._app.unavailable(error))
            return
        for _, _, sent in batch:
            if not sent.done():
                sent.set_result(None)
        await self._tell_subscription("SUBSCRIBE", [action for action, _, _ in batch if action in self._waiting])

    async def _tell_subscription(self, command: str, actions: Sequence[str]) -> None:
        """Change what is listened to. Without a connection nothing is lost: the listener asks for all when it has one.

        Only the listener connects; two tasks that do would leave a connection behind.
        """
        if not actions:
            return
        self._wanted.set()
        connection = self._subscription.connection if self._subscription is not None else None
        if connection is not None and connection.is_connected:
            with contextlib.suppress(RedisError, OSError):
                await connection.send_command(command, *(_CHANNEL + action for action in actions))

    # -- results

    async def _listen(self) -> None:
        await self._wanted.wait()
        subscription = self._subscription = self._client.pubsub(ignore_subscribe_messages=False)
        try:
            await subscription.subscribe(_NOBODY, *(_CHANNEL + action for action in self._waiting))
            while not _is_ending():
                await self._hear(subscription)
        finally:
            self._subscription = None
            await _drop(subscription)

    async def _hear(self, subscription: Any) -> None:
        fresh: list[str] = []
        message = await subscription.get_message(timeout=RESYNC_SECONDS)
        while message is not None:
            if message["type"] == "subscribe":
                fresh.append(message["channel"].decode().removeprefix(_CHANNEL))
            elif message["type"] == "message":
                await self._resolve(message["data"])
            message = await subscription.get_message(timeout=0)
        await self._fetch(fresh)

    async def _resync(self) -> None:
        await asyncio.sleep(RESYNC_SECONDS)
        await self._fetch(list(self._waiting))

    async def _fetch(self, actions: Iterable[str]) -> None:
        keys = [_CHANNEL + action for action in actions if action in self._waiting]
        if keys:
            for payload in await self._client.mget(keys):
                if payload is not None:
                    await self._resolve(payload)

    async def _resolve(self, payload: bytes | str) -> None:
        meta = self._app.backend.decode(payload if isinstance(payload, bytes) else payload.encode())
        if meta["status"] not in states.READY_STATES:
            return
        waiting = self._waiting.pop(meta["task_id"], [])
        for future in waiting:
            if not future.done():
                future.set_result(meta)
        if waiting:
            await self._tell_subscription("UNSUBSCRIBE", [meta["task_id"]])


def _is_ending() -> bool:
    """Whether this task was told to end: before Python 3.12 a `wait_for` inside may swallow the cancellation itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _drop(subscription: Any) -> None:
    """Close a subscription whose connection may be broken."""
    with contextlib.suppress(Exception, asyncio.CancelledError):
        if subscription.connection is not None:
            await subscription.connection.disconnect(nowait=True)
        await subscription.aclose()
