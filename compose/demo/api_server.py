"""A search API on this machine: answers after a sampled latency, and counts every call against its quota."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

_POLL = 0.05  # seconds until the server notices that it shall stop


@dataclass(frozen=True, slots=True)
class ApiQuota:
    """What the provider allows.

    Args:
        concurrency: calls in flight.
        per_window: calls that start within any `window` seconds.
        window: seconds.
    """

    concurrency: int
    per_window: int
    window: float = 1.0


@dataclass(slots=True)
class ApiStats:
    """What the provider saw: calls answered and refused with 429, and the most it saw at once and in one window."""

    answered: int = 0
    refused: int = 0
    most_in_flight: int = 0
    most_in_window: int = 0


class Meter:
    """The provider's own books; thread safe.

    Args:
        quota: what it allows.
        clock: seconds, monotonic.
    """

    def __init__(self, quota: ApiQuota, clock: Callable[[], float] = time.monotonic) -> None:
        self._quota = quota
        self._clock = clock
        self._lock = threading.Lock()
        self._in_flight = 0
        self._starts: deque[float] = deque()
        self._stats = ApiStats()

    def enter(self) -> bool:
        """Count a call that starts. False: it is over the quota, and must be refused."""
        with self._lock:
            now = self._clock()
            while self._starts and self._starts[0] <= now - self._quota.window:
                self._starts.popleft()
            in_window, in_flight = len(self._starts) + 1, self._in_flight + 1
            self._stats.most_in_window = max(self._stats.most_in_window, in_window)
            self._stats.most_in_flight = max(self._stats.most_in_flight, in_flight)
            if in_window > self._quota.per_window or in_flight > self._quota.concurrency:
                self._stats.refused += 1
                return False
            self._starts.append(now)
            self._in_flight = in_flight
            self._stats.answered += 1
            return True

    def leave(self) -> None:
        """Count the end of a call that `enter` let in."""
        with self._lock:
            self._in_flight -= 1

    def stats(self) -> ApiStats:
        """Return a copy of what was counted so far."""
        with self._lock:
            return ApiStats(**asdict(self._stats))


class SearchServer:
    """`with SearchServer(...) as server: server.url`. Paths: /search?q=TEXT and /stats.

    Args:
        documents: name to text; a search answers with the names of those that share most words with the query.
        quota: calls above it get 429.
        latency: lowest and highest latency in seconds.
        seed: of the latencies.
    """

    def __init__(
        self,
        documents: dict[str, str],
        quota: ApiQuota,
        *,
        latency: tuple[float, float] = (0.1, 0.6),
        seed: int = 0,
    ) -> None:
        self.meter = Meter(quota)
        self._documents = {name: set(text.lower().split()) for name, text in documents.items()}
        self._latency = latency
        self._random = Random(seed)
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), name="search-api", daemon=True
        )

    @property
    def url(self) -> str:
        """Its address on the loopback interface."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def search(self, query: str) -> list[str]:
        """Return at most five document names, best first, after the sampled latency."""
        time.sleep(self._random.uniform(*self._latency))
        words = set(query.lower().split())
        ranked = sorted(self._documents, key=lambda name: (-len(words & self._documents[name]), name))
        return ranked[:5]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client that keeps its connection open must not hold up the end

    def __init__(self, owner: SearchServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30  # an idle connection is closed after these seconds
    server: _Server

    def do_GET(self) -> None:  # the standard library names it
        """Answer one request."""
        parts = urlsplit(self.path)
        if parts.path == "/stats":
            self._answer(200, asdict(self.server.owner.meter.stats()))
        elif parts.path == "/search":
            self._search(" ".join(parse_qs(parts.query).get("q", [])))
        else:
            self._answer(404, {"error": f"no such path: {parts.path}"})

    def _search(self, query: str) -> None:
        owner = self.server.owner
        if not owner.meter.enter():
            self._answer(429, {"error": "over quota"})
            return
        try:
            found = owner.search(query)
        finally:
            owner.meter.leave()
        self._answer(200, {"query": query, "results": found})

    def _answer(self, status: int, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # the standard library names it
        """Say nothing: the stats tell."""
