"""HTTP to one engine, with bounded retries, in a way that a caller can give up at any time."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import httpx

from tangram_tasks.errors import ServiceUnavailable
from workers.service import Away, Watch

T = TypeVar("T")

#: Statuses that say that the engine was not reached, or is busy coming up.
AWAY = frozenset({502, 503, 504})
#: Seconds between tries; one more try than there are pauses.
PAUSES = (0.1, 0.2, 0.4, 0.8)
#: Seconds between looks at whether the caller still wants the answer.
_LOOK = 0.05
_CONNECT = 5.0


class Connection:
    """Requests to one engine.

    An event loop in a thread of its own sends them: a request is given up, and its connection closed, as soon as the
    caller's `watch` says so, while others go on. An engine aborts what it computes when its client goes.

    Args:
        name: of the service, for messages.
        url: base address.
        key: bearer token; never in a message.
        transport: replaces the network in tests.
    """

    def __init__(
        self, name: str, url: str, *, key: str | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.url = url
        self._name = name
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._client = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            transport=transport,
            timeout=httpx.Timeout(None, connect=_CONNECT),  # the watch bounds the rest
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=2.0),
            trust_env=False,  # a proxy of the environment is not meant for engines
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"engine-{name}", daemon=True)
        self._thread.start()

    def ask(self, path: str, watch: Watch) -> httpx.Response:
        """Return the answer to a GET; its status is below 300. Raises as `post`."""
        return self._wait(self._send("GET", path, None, None, tries=len(PAUSES) + 1), watch)

    def get(self, path: str, watch: Watch) -> Any:
        """Return the JSON answer to a GET. Raises as `post`."""
        return _json(self._name, path, self.ask(path, watch))

    def post(
        self,
        path: str,
        watch: Watch,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        again: bool = True,
    ) -> httpx.Response:
        """Return the answer to a POST; its status is below 300.

        Args:
            path: below the base address.
            watch: ends the wait.
            query: sent in the query string.
            body: sent as JSON; None sends no body.
            again: try again when the engine may or may not have seen the request (502, connection lost). A
                connection that was refused is always tried again.

        Raises:
            Away: it could not be reached.
            ServiceUnavailable: it answered with another status of 300 or above.
        """
        return self._wait(self._send("POST", path, query, body, tries=len(PAUSES) + 1 if again else 1), watch)

    def post_all(self, path: str, watch: Watch, bodies: Sequence[Any]) -> list[Any]:
        """Send several POSTs at once; return their JSON answers in order. Raises as `post`."""
        return [_json(self._name, path, answer) for answer in self._wait(self._send_all(path, bodies), watch)]

    def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._loop.is_closed():
            return
        ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        concurrent.futures.wait([ending], _CONNECT)  # an engine that does not let go must not keep the node
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CONNECT)
        if not self._thread.is_alive():  # else it ends with the process, of which it is a daemon
            self._loop.close()

    def _wait(self, work: Awaitable[T], watch: Watch) -> T:
        future = asyncio.run_coroutine_threadsafe(_run(work), self._loop)
        try:
            while True:
                watch.check()
                left = watch.deadline - time.monotonic()
                try:
                    return future.result(min(_LOOK, max(left, 0.001)))
                except concurrent.futures.TimeoutError:
                    continue
        finally:
            future.cancel()

    async def _send_all(self, path: str, bodies: Sequence[Any]) -> list[httpx.Response]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._send("POST", path, None, body, tries=len(PAUSES) + 1)) for body in bodies]
        return [task.result() for task in tasks]

    async def _send(self, method: str, path: str, query: Any, body: Any, *, tries: int) -> httpx.Response:
        reason = ""
        for pause in (*PAUSES, None):
            tries -= 1
            try:
                answer = await self._client.request(method, path, params=query, json=body)
                if answer.status_code < httpx.codes.MULTIPLE_CHOICES:
                    return answer
                reason = f"answered {answer.status_code}"
                if answer.status_code not in AWAY:
                    raise ServiceUnavailable(f"the engine of {self._name} {reason} to {path}: {answer.text[:200]}")
                may_retry = tries > 0
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                reason, may_retry = f"cannot be reached ({error})", True
            except httpx.TransportError as error:
                reason, may_retry = f"broke off ({type(error).__name__})", tries > 0
            if pause is None or not may_retry:
                break
            await asyncio.sleep(pause)
        raise Away(f"the engine of {self._name} at {self.url} {reason} at {path}: is it running?")

    async def _end(self) -> None:
        current = asyncio.current_task()
        left = [task for task in asyncio.all_tasks() if task is not current]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._client.aclose()
        await asyncio.sleep(0)  # transports close themselves in the loop's next turn


async def _run(work: Awaitable[T]) -> T:
    try:
        return await work
    except BaseExceptionGroup as group:  # of several requests sent at once: the first fault stands for all
        raise group.exceptions[0] from None


def _json(name: str, path: str, answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise ServiceUnavailable(f"the engine of {name} answered {path} without JSON: {answer.text[:200]!r}") from None
