"""One connection to the agent: a request comes in, an answer goes out."""

from __future__ import annotations

import selectors
import socket
import time
from typing import Any, Callable  # noqa: UP035  # Python 3.8 has no generic collections.abc

from workers.agent import frames
from workers.agent.running import NEVER, Running
from workers.agent.streams import CHUNK

STALL = 30.0  # s a client may take to send or to fetch a frame


class Call:
    """Reads the request, hands it over, and later sends the answer. Never blocks.

    Args:
        sock: the connection.
        selector: watches it.
        serve: gets the complete request.
        cancel: gets the running command when the client gives up.
        closed: called at the end.
    """

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        *,
        serve: Callable[[Call, dict[str, Any], bytes], None],
        cancel: Callable[[Running], None],
        closed: Callable[[Call], None],
    ) -> None:
        self.running: Running | None = None
        self.give_up = time.monotonic() + STALL
        self._sock, self._selector = sock, selector
        self._serve, self._cancel, self._closed = serve, cancel, closed
        self._incoming, self._outgoing = bytearray(), memoryview(b"")
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ, self._receive)

    def answer(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send the answer, and close when it is out."""
        self.running = None
        self._outgoing = memoryview(frames.encode(header, body))
        self.give_up = time.monotonic() + STALL
        self._selector.modify(self._sock, selectors.EVENT_WRITE, self._send)
        self._send()

    def close(self) -> None:
        """Forget the connection."""
        self._closed(self)
        self._selector.unregister(self._sock)
        self._sock.close()

    def _receive(self) -> None:
        data = self._sock.recv(CHUNK)
        if not data and self.running is not None:
            self._cancel(self.running)
        elif not data:
            self.close()
        elif self.running is None:
            self._incoming += data
            self._serve_when_complete()

    def _serve_when_complete(self) -> None:
        try:
            request = frames.decode(self._incoming)
        except ValueError as error:
            self.answer({"error": "frame", "message": str(error)})
            return
        if request is not None:
            self._incoming = bytearray()
            self.give_up = NEVER
            self._serve(self, *request)

    def _send(self) -> None:
        try:
            self._outgoing = self._outgoing[self._sock.send(self._outgoing) :]
        except BlockingIOError:
            return
        except OSError:  # the client is gone
            self._outgoing = memoryview(b"")
        if not self._outgoing:
            self.close()
