"""An HTTP API on this machine that counts: every call by the moment it arrived, and how many were there at once.

It refuses what is over its quota with 429, and on some paths it misbehaves as real ones do.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import SplitResult, parse_qs, urlsplit


@dataclass
class Books:
    """What the server saw. Times are seconds, monotonic.

    Args:
        arrivals: when each call arrived, also those that were refused.
        refused: calls answered with 429.
        most_in_flight: at once.
        headers: those of every call.
    """

    arrivals: list[float] = field(default_factory=list)
    refused: int = 0
    most_in_flight: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)

    def most_within(self, seconds: float) -> int:
        """Return the most calls that arrived in any half-open span of so many seconds."""
        most = first = 0
        for last, at in enumerate(self.arrivals):
            while self.arrivals[first] <= at - seconds:
                first += 1
            most = max(most, last - first + 1)
        return most

    def within(self, since: float, until: float) -> int:
        """Return how many calls arrived between two moments."""
        return sum(since < at < until for at in self.arrivals)


class CountingServer:
    """`with CountingServer(...) as server: server.url`. `/ok?ms=20` answers after 20 ms.

    Args:
        concurrency: calls above it are refused; None: none is.
        limit: calls above it within `window` seconds are refused; None: none is.
        window: seconds.
    """

    def __init__(self, concurrency: int | None = None, limit: int | None = None, window: float = 60.0) -> None:
        self.books = Books()
        self._concurrency = concurrency
        self._limit = limit
        self._window = window
        self._in_flight = 0
        self._accepted: deque[float] = deque()
        self._refusals: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="counting-server", daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        """Its address on the loopback interface."""
        return f"http://127.0.0.1:{self.port}"

    def refuse_next(self, retry_after: str) -> None:
        """Answer the next call with 429 and this Retry-After."""
        self._refusals.append(retry_after)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=4096), self._loop
        ).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            while (request := await _request(reader)) is not None:
                await self._answer(*request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, target: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        now = time.monotonic()
        self.books.arrivals.append(now)
        self.books.headers.append(headers)
        self._in_flight += 1
        self.books.most_in_flight = max(self.books.most_in_flight, self._in_flight)
        refusal = self._refusal(now)
        try:
            if refusal is None:
                self._accepted.append(now)
                status, content, extra = await _behave(urlsplit(target), writer, headers)
            else:
                self.books.refused += 1
                status, content, extra = 429, {"error": "over quota"}, {"Retry-After": refusal}
        finally:
            self._in_flight -= 1  # before its last byte: its client may call again the moment it has that
        _write(writer, status, content, extra)
        await writer.drain()

    def _refusal(self, now: float) -> str | None:
        if self._refusals:
            return self._refusals.pop(0)
        while self._accepted and self._accepted[0] <= now - self._window:
            self._accepted.popleft()
        full = self._limit is not None and len(self._accepted) >= self._limit
        crowded = self._concurrency is not None and self._in_flight > self._concurrency
        return "1" if full or crowded else None


async def _request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]] | None:
    """Read one request; None if the client has gone."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    await reader.readexactly(int(headers.get("content-length", "0")))
    return first.split(" ")[1], headers


async def _behave(
    target: SplitResult, writer: asyncio.StreamWriter, headers: dict[str, str]
) -> tuple[int, dict[str, object], dict[str, str]]:
    """Do what the path says. Returns status, content and headers of the answer."""
    kind, _, detail = target.path.strip("/").partition("/")
    await asyncio.sleep(float(parse_qs(target.query).get("ms", ["0"])[0]) / 1000)
    if kind == "status":
        return int(detail), {"status": int(detail)}, {}
    if kind == "echo":
        return 200, {"headers": headers}, {}
    if kind == "chat":
        reply = {"message": {"content": '{"score": 0.75, "reason": "close"}'}, "finish_reason": "stop"}
        return 200, {"choices": [reply], "usage": {"total_tokens": int(detail.split("/")[0])}}, {}
    if kind == "hang":
        await asyncio.sleep(3600)
    if kind == "drip":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.1)
    if kind == "truncate":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf of it")
        raise ConnectionError("on purpose")
    return 200, {"ok": True}, {}


def _write(writer: asyncio.StreamWriter, status: int, content: dict[str, object], extra: dict[str, str]) -> None:
    body = json.dumps(content).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **extra}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + body)
