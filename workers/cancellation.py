"""Cancelling what an action waits for, from another thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Cancellation:
    """One action's wish to stop: half closes the connections it waits on, at once and from then on. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._covered: set[socket.socket] = set()
        self._wanted = False

    @property
    def wanted(self) -> bool:
        """Whether somebody cancelled."""
        return self._wanted

    def cancel(self) -> None:
        """Cancel. Idempotent."""
        with self._lock:
            self._wanted = True
            for sock in self._covered:
                _half_close(sock)

    @contextlib.contextmanager
    def covers(self, sock: socket.socket) -> Iterator[None]:
        """Half close this connection when the action is cancelled meanwhile, or was already."""
        with self._lock:
            self._covered.add(sock)
            if self._wanted:
                _half_close(sock)
        try:
            yield
        finally:
            with self._lock:
                self._covered.discard(sock)


def _half_close(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other end was faster
        sock.shutdown(socket.SHUT_WR)
