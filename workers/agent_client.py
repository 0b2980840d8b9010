"""The worker's end of a sandbox's agent: one connection per call, and every wait has an end."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tangram_tasks.errors import SandboxError
from workers.agent import frames
from workers.cancellation import Cancellation

FILE_TIME = 30.0  # s for a call that runs no command
_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent said.

    Args:
        fields: its header; `error` and `message` if it could not do what was asked.
        body: raw bytes.
    """

    fields: dict[str, Any]
    body: bytes


class AgentClient:
    """Talks to one agent. Thread safe.

    Args:
        sock: the agent's socket, in a folder that only the worker can enter.
        name: the sandbox, for messages.

    Raises:
        OSError: the folder does not exist.
    """

    def __init__(self, sock: Path, name: str) -> None:
        self._name = name
        self._folder = os.open(sock.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._socket_name = sock.name
        self._lock = threading.Lock()

    def close(self) -> None:
        """Forget the agent. Idempotent."""
        with self._lock:
            folder, self._folder = self._folder, -1
        if folder >= 0:
            os.close(folder)

    def answers(self, patience: float) -> bool:
        """Return whether the agent answers within `patience` seconds."""
        try:
            self.ask({"op": "ping", "path": ""}, timeout=patience)
        except SandboxError:
            return False
        return True

    def ask(
        self,
        header: Mapping[str, Any],
        body: bytes | memoryview = b"",
        *,
        timeout: float = FILE_TIME,
        cancellation: Cancellation | None = None,
    ) -> Answer:
        """Send a request and wait for the answer.

        Args:
            header: what to do; see `workers.agent.loop`.
            body: raw bytes of the request.
            timeout: seconds for all of it.
            cancellation: lets another thread end the request early; the agent still answers.

        Raises:
            SandboxError: the agent is gone, does not answer in time, or the request is too large.
        """
        give_up = time.monotonic() + timeout
        try:
            frame = frames.encode(header, body)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(timeout)
                self._connect(sock)
                sock.sendall(frame)
                with (cancellation or Cancellation()).covers(sock):
                    return self._receive(sock, give_up)
        except TimeoutError:
            raise SandboxError(f"{self._name} did not answer within {timeout:.1f} s: close its trajectory") from None
        except ConnectionError as error:
            raise SandboxError(f"{self._name} is gone, removed or killed from outside: {error}") from None
        except (OSError, ValueError) as error:
            raise SandboxError(f"{self._name} cannot be asked: {error}") from None

    def _connect(self, sock: socket.socket) -> None:
        """Connect through a descriptor of our own: a path may have 107 bytes only, and `close` may come meanwhile."""
        with self._lock:
            if self._folder < 0:
                raise ConnectionResetError("it was closed")
            folder = os.dup(self._folder)
        try:
            sock.connect(f"/proc/self/fd/{folder}/{self._socket_name}")
        finally:
            os.close(folder)

    def _receive(self, sock: socket.socket, give_up: float) -> Answer:
        received = bytearray()
        while (answer := frames.decode(received)) is None:
            sock.settimeout(max(0.001, give_up - time.monotonic()))
            data = sock.recv(_CHUNK)
            if not data:
                raise ConnectionResetError("its agent hung up")
            received += data
        return Answer(*answer)
