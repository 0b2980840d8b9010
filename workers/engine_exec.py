"""One command through `docker exec`: its streams, its deadline and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workers.agent.output import Output
from workers.cancellation import Cancellation
from workers.cgroups import Cgroup

if TYPE_CHECKING:
    from docker.models.containers import Container

_LOOK = 0.05  # s between two looks at the deadline and at a cancellation
_HEADER = struct.Struct(">BxxxI")  # stream and length, as the Docker Engine API frames the streams of an exec
_STDERR = 2
_CHUNK = 1 << 16
_GRACE = 0.2  # s after the end of the command's own process in which its children may still write
_KILL_TIME = 3.0  # s


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: see `tangram_tasks.sandbox.ExecResult`; `verdict` is empty if it ended by itself."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: bool
    verdict: str
    duration: float


class EngineExec:
    """Runs one command in a container without an agent.

    Args:
        container: where.
        group: its control group: whoever is in it and was not before the command belongs to the command.
        user: uid.
    """

    def __init__(self, container: Container, group: Cgroup, user: int) -> None:
        self._container, self._group, self._user = container, group, user

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes,
        timeout: float,
        cap: int,
        cancellation: Cancellation,
    ) -> Ended:
        """Run it to its end, or kill it with everything it started.

        Raises:
            docker.errors.DockerException, requests.RequestException, OSError: the engine or the container is gone.
        """
        engine: Any = self._container.client.api if self._container.client else None
        before, began = self._pids(), time.monotonic()
        made = engine.exec_create(
            self._container.id,
            list(argv),
            stdin=bool(stdin),
            user=f"{self._user}:{self._user}",
            workdir=cwd,
            environment=dict(env),
        )
        stream = engine.exec_start(made["Id"], socket=True)
        sock: socket.socket = stream._sock  # the only way to its timeout and its other direction
        with contextlib.closing(stream), contextlib.closing(sock):
            feeder = threading.Thread(target=_feed, args=(sock, stdin), daemon=True)
            feeder.start()
            outputs = {1: Output(cap), _STDERR: Output(cap)}
            verdict = self._drain(sock, outputs, began + timeout, cancellation, lambda: _is_over(engine, made["Id"]))
            if verdict:
                self._kill(before)
        feeder.join(_KILL_TIME)
        code = engine.exec_inspect(made["Id"])["ExitCode"]
        stdout, stderr = outputs[1], outputs[_STDERR]
        return Ended(
            exit_code=128 + signal.SIGKILL if code is None or verdict else int(code),
            stdout=stdout.kept(),
            stderr=stderr.kept(),
            truncated=stdout.truncated or stderr.truncated,
            verdict=verdict,
            duration=time.monotonic() - began,
        )

    def _drain(
        self, sock: socket.socket, outputs: dict[int, Output], deadline: float, cancellation: Cancellation, over: Any
    ) -> str:
        """Read until the end. Returns why it was cut short, or nothing."""
        sock.settimeout(_LOOK)
        received = bytearray()
        give_up = float("inf")
        while True:
            try:
                data = sock.recv(_CHUNK)
                if not data:
                    return ""
                received += data
                _take_frames(received, outputs)
            except TimeoutError:
                if give_up == float("inf") and over():  # a child in the background may hold the streams for ever
                    give_up = time.monotonic() + _GRACE
            if cancellation.wanted:
                return "cancelled"
            now = time.monotonic()
            if now >= give_up:
                return ""
            if now >= deadline:
                return "timed_out"

    def _kill(self, before: set[int]) -> None:
        give_up = time.monotonic() + _KILL_TIME
        while (victims := self._pids() - before) and time.monotonic() < give_up:
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)

    def _pids(self) -> set[int]:
        return {int(line) for line in (self._group.folders["cpu"] / "cgroup.procs").read_text().split()}


def _is_over(engine: Any, command: str) -> bool:
    return not engine.exec_inspect(command)["Running"]


def _feed(sock: socket.socket, stdin: bytes) -> None:
    view = memoryview(stdin)
    while view:
        try:
            view = view[sock.send(view[:_CHUNK]) :]
        except TimeoutError:
            continue
        except OSError:  # it does not want the rest
            return
    with contextlib.suppress(OSError):
        if stdin:
            sock.shutdown(socket.SHUT_WR)


def _take_frames(received: bytearray, outputs: dict[int, Output]) -> None:
    while len(received) >= _HEADER.size:
        stream, length = _HEADER.unpack_from(received)
        end = _HEADER.size + length
        if len(received) < end:
            return
        outputs[_STDERR if stream == _STDERR else 1].add(bytes(received[_HEADER.size : end]))
        del received[:end]
