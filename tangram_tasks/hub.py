"""One hub per event loop: publishes actions in batches and wakes every waiter from one subscription.

Never one thread, one connection or one Redis command per waiter. Results come by pubsub; one MGET right after a
SUBSCRIBE closes the race with a fast action, and one MGET of everything outstanding every 2 s covers messages that
pubsub lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Coroutine, Generator, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import redis.asyncio as aioredis
from celery import Task, states
from redis.exceptions import RedisError

from tangram_tasks.backend import REPORT
from tangram_tasks.control import stream_entry
from tangram_tasks.deployment import Deployment
from tangram_tasks.errors import ActionCancelled
from tangram_tasks.publisher import EnvelopeProducer
from tangram_tasks.report import ActionReport
from tangram_tasks.wire import ADMISSION_QUEUE, CancelAction, ControlMessage

logger = logging.getLogger(__name__)

FLUSH_MESSAGES = 64
RESYNC_SECONDS = 2.0

_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Hub]] = WeakKeyDictionary()


def hub_of(app: Deployment) -> Hub:
    """Return the hub of this app in the running event loop."""
    hubs = _hubs.setdefault(asyncio.get_running_loop(), {})
    if id(app) not in hubs:
        hubs[id(app)] = Hub(app)
    return hubs[id(app)]


class ActionHandle:
    """An action that was published. Await it for its result.

    Args:
        hub: the hub that waits for it.
        action: its task id.
        meta: resolves to Celery's result metadata.
    """

    def __init__(self, hub: Hub, action: str, meta: asyncio.Future[dict[str, Any]]) -> None:
        self.id = action
        self._hub = hub
        self._meta = meta

    def __await__(self) -> Generator[Any, None, Any]:
        return self._result().__await__()

    async def _result(self) -> Any:
        return self._hub.outcome(await asyncio.shield(self._meta))

    async def result_or_cancel(self) -> Any:
        """Await the result; if the await is cancelled, so is the action."""
        try:
            return await self._result()
        except asyncio.CancelledError:
            if not self._meta.done():
                self._hub.spawn(self.cancel())
            raise

    async def cancel(self) -> None:
        """Ask for the action to be cancelled, waiting or running; awaiting it then raises ActionCancelled."""
        await self._hub.control(CancelAction(action=self.id))

    @property
    def done(self) -> bool:
        """Whether the outcome is known here."""
        return self._meta.done()

    @property
    def report(self) -> ActionReport | None:
        """Where its time went; None until it is done, and for actions that never started."""
        if not self._meta.done() or self._meta.cancelled() or self._meta.exception() is not None:
            return None
        found = self._meta.result().get(REPORT)
        return ActionReport.model_validate(found) if found else None


class Hub:
    """Publisher and result pump of one event loop.

    Args:
        app: names the broker; its backend decodes results.
    """

    def __init__(self, app: Deployment) -> None:
        self._app = app
        self._producer = EnvelopeProducer()
        self._client = aioredis.Redis.from_url(app.url, socket_timeout=30, socket_connect_timeout=5, max_connections=8)
        self._pubsub = self._client.pubsub(ignore_subscribe_messages=False)
        self._outbox: asyncio.Queue[tuple[str, str, asyncio.Future[None]]] = asyncio.Queue()
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._subscribed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        for loop in (self._publish_loop, self._listen_loop, self._resync_loop):
            self.spawn(loop())

    async def submit(self, task: Task[Any, Any], args: Any, kwargs: Any, options: dict[str, Any]) -> ActionHandle:
        """Publish one action. Raises InvalidAction, BrokerUnavailable."""
        result = task.apply_async(args, kwargs, producer=self._producer, **options)
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        meta = self._waiting[result.id] = asyncio.get_running_loop().create_future()
        self._outbox.put_nowait((result.id, self._producer.envelope, sent))
        try:
            await sent
        except BaseException:
            self._waiting.pop(result.id, None)
            raise
        return ActionHandle(self, result.id, meta)

    async def control(self, message: ControlMessage) -> None:
        """Tell the scheduler something. Raises BrokerUnavailable."""
        try:
            await self._client.xadd(self._app.keys.control, stream_entry(message))
        except (RedisError, OSError) as error:
            raise self._app.unavailable(error) from error

    def outcome(self, meta: dict[str, Any]) -> Any:
        """Return the result in Celery's metadata, or raise the error in it."""
        if meta["status"] == states.SUCCESS:
            return meta["result"]
        error = self._app.backend.exception_to_python(meta["result"])
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
        _hubs.get(asyncio.get_running_loop(), {}).pop(id(self._app), None)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for meta in self._waiting.values():
            meta.cancel()

    # -- publishing

    async def _publish_loop(self) -> None:
        try:
            while True:
                batch = [await self._outbox.get()]
                await asyncio.sleep(0)  # whatever else is ready to publish comes along
                while len(batch) < FLUSH_MESSAGES and not self._outbox.empty():
                    batch.append(self._outbox.get_nowait())
                await self._flush(batch)
        finally:
            pubsub: Any = self._pubsub  # redis leaves this one method untyped
            await _quietly(pubsub.aclose(), self._client.aclose())

    async def _flush(self, batch: list[tuple[str, str, asyncio.Future[None]]]) -> None:
        try:
            await self._client.lpush(ADMISSION_QUEUE, *(envelope for _, envelope, _ in batch))
            await self._pubsub.subscribe(*(self._channel(action) for action, _, _ in batch))
            self._subscribed.set()
        except (RedisError, OSError) as error:
            for _, _, sent in batch:
                if not sent.done():
                    sent.set_exception(self._app.unavailable(error))
            return
        for _, _, sent in batch:
            if not sent.done():
                sent.set_result(None)

    # -- results

    def _channel(self, action: str) -> str:
        return f"celery-task-meta-{action}"

    async def _listen_loop(self) -> None:
        fresh: list[str] = []
        await self._subscribed.wait()
        while True:
            try:
                message = await self._pubsub.get_message(timeout=RESYNC_SECONDS)
                while message is not None:
                    if message["type"] == "subscribe":
                        fresh.append(message["channel"].decode().removeprefix(self._channel("")))
                    elif message["type"] == "message":
                        await self._resolve(message["data"])
                    message = await self._pubsub.get_message(timeout=0)
                if fresh:
                    await self._fetch(fresh)
                    fresh = []
            except (RedisError, OSError) as error:
                logger.warning("results: %s; trying again", self._app.unavailable(error))
                await asyncio.sleep(0.5)

    async def _resync_loop(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            try:
                await self._fetch(list(self._waiting))
            except (RedisError, OSError) as error:
                logger.warning("results: %s; trying again", self._app.unavailable(error))

    async def _fetch(self, actions: Iterable[str]) -> None:
        keys = [self._channel(action) for action in actions if action in self._waiting]
        if keys:
            for payload in await self._client.mget(keys):
                if payload is not None:
                    await self._resolve(payload)

    async def _resolve(self, payload: bytes | str) -> None:
        meta = self._app.backend.decode(payload if isinstance(payload, bytes) else payload.encode())
        if meta["status"] not in states.READY_STATES:
            return
        future = self._waiting.pop(meta["task_id"], None)
        if future is not None and not future.done():
            future.set_result(meta)
            await self._pubsub.unsubscribe(self._channel(meta["task_id"]))


async def _quietly(*closing: Awaitable[Any]) -> None:
    for one in closing:
        with contextlib.suppress(RedisError, OSError, asyncio.CancelledError):
            await one
