"""What both simulators share: the HTTP server, requests in flight, memory, and a way to die."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.support.engine_simulators.device import SimulatedDevice
from tests.support.engine_simulators.faults import Faults, use_up


class Dead(Exception):
    """The engine's process is gone: the connection breaks off."""


class Refused(Exception):
    """The engine answers with an error."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(status, why)
        self.status = status
        self.why = why


class Request:
    """One request as it arrived."""

    def __init__(self, method: str, target: str, raw: bytes, headers: Any, connection: socket.socket) -> None:
        parts = urlsplit(target)
        self.method = method
        self.path = parts.path
        self.query = parse_qs(parts.query)
        self.raw = raw
        self.key = headers.get("authorization", "")
        self._connection = connection

    def given_up(self) -> bool:
        """Whether the client has closed the connection."""
        readable, _, _ = select.select([self._connection], [], [], 0)
        return bool(readable) and not self._connection.recv(1, socket.MSG_PEEK)

    @property
    def body(self) -> Any:
        """Its JSON. Raises Refused if it has none, as FastAPI does."""
        try:
            return json.loads(self.raw)
        except ValueError:
            raise Refused(422, "a JSON body is required") from None


class EngineSimulator:
    """One engine on one device. Use as a context.

    Args:
        device: where it holds memory.
        nbytes: what it holds awake.
        residual: what it holds asleep.
        key: bearer token that it asks for.
    """

    def __init__(self, device: SimulatedDevice, nbytes: int, *, residual: int = 0, key: str | None = None) -> None:
        self.faults = Faults()
        self.seen: list[str] = []
        self.deaths: list[str] = []
        self.weights_right = True
        self.device = device
        self.nbytes = nbytes
        self.residual = residual
        self.key = key
        self.lock = threading.RLock()
        self.idle = threading.Condition(self.lock)
        self.in_flight = 0
        self.aborted = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        assert self.device.hold(self.url, self.residual + self.nbytes)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.faults.endless.clear()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def die(self, why: str) -> Dead:
        """Be gone from now on."""
        self.deaths.append(why)
        return Dead(why)

    def give_up(self) -> None:
        """Give the memory up, as the faults allow."""
        kept = self.residual + self.faults.keeps

        def give() -> None:
            assert self.device.hold(self.url, kept)

        if self.faults.late_s:
            threading.Timer(self.faults.late_s, give).start()
        else:
            give()

    def take(self) -> None:
        """Take the memory again. Raises Refused if the device has not enough."""
        if not self.device.hold(self.url, self.residual + self.nbytes):
            raise Refused(500, "CUDA out of memory")
        if self.faults.garbage:
            self.weights_right = False

    @contextmanager
    def computing(self, request: Request) -> Iterator[None]:
        """Count a request in flight, which does not end while `endless` is set unless it is aborted or given up."""
        with self.idle:
            self.in_flight += 1
            aborted = self.aborted
        try:
            while self.faults.endless.is_set():
                time.sleep(0.01)
                if self.aborted > aborted or request.given_up():
                    raise Refused(500, "the request was aborted")
            yield
        finally:
            with self.idle:
                self.in_flight -= 1
                self.idle.notify_all()

    def similarity(self, left: str, right: str) -> float:
        """Return the share of words that two texts have in common, or nonsense when the weights are lost."""
        if not self.weights_right:
            return -7.25
        one, other = set(left.split()), set(right.split())
        return len(one & other) / max(1, len(one | other))

    def answer(self, request: Request) -> Any:
        """Return the JSON answer, or None for an empty one. Raises Refused or Dead."""
        raise NotImplementedError

    def handle(self, request: Request) -> tuple[int, Any]:
        """Return status and answer. Raises Dead."""
        self.seen.append(request.path)
        if self.deaths:
            raise Dead(self.deaths[0])
        if self.key is not None and request.key != f"Bearer {self.key}":
            return 401, {"error": "Unauthorized"}
        if use_up(self.faults.bad_gateways, request.path):
            return 502, None
        try:
            found = self.answer(request)
        except Refused as refusal:
            return refusal.status, {"error": refusal.why}
        return (502, None) if use_up(self.faults.lost_answers, request.path) else (200, found)


def _handler(engine: EngineSimulator) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._do()

        def do_POST(self) -> None:
            self._do()

        def _do(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                status, found = engine.handle(Request(self.command, self.path, raw, self.headers, self.connection))
            except Dead:
                self.close_connection = True
                return
            payload = b"" if found is None else json.dumps(found).encode()
            try:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client gave up

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    return Handler
