"""Keeps child processes running: restarts with back-off, stops in order, leaves nothing behind.

One thread owns all children, because Linux ties "die with your parent" to the thread that forked.
Everything else asks that thread through a queue, so its state needs no lock.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from compose.backoff import Backoff
from compose.guardian import Guardian
from compose.process import ChildSpec, Process
from tangram_tasks.errors import ConfigurationError

T = TypeVar("T")

logger = logging.getLogger(__name__)

_POLL = 0.05  # seconds between looks at the children
_CLOSED = "the supervisor was closed: its children are gone"
_CALL_LIMIT = 120.0  # seconds; longer than any stop with its grace


@dataclass(frozen=True, slots=True)
class ChildStatus:
    """How a child is. `pid` is None while it waits to be started again; `uptime` is in seconds."""

    name: str
    pid: int | None
    restarts: int
    uptime: float
    exit_code: int | None


@dataclass(slots=True)
class _Child:
    spec: ChildSpec
    process: Process | None = None
    restarts: int = 0
    wait: float | None = None
    due: float = 0.0
    exit_code: int | None = None


class Supervisor:
    """Starts children and keeps them alive until `close`.

    Args:
        logs: folder of the children's log files.
        guardian: told of every process group, so that nothing survives a kill -9 of this process.
        backoff: when to restart.
        grace: seconds between SIGTERM and SIGKILL.
    """

    def __init__(
        self, logs: Path, *, guardian: Guardian | None = None, backoff: Backoff | None = None, grace: float = 10.0
    ) -> None:
        self._logs = logs
        self._guardian = guardian
        self._backoff = backoff or Backoff()
        self._grace = grace
        self._children: dict[str, _Child] = {}
        self._jobs: queue.Queue[Callable[[], None]] = queue.Queue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()

    def start(self, spec: ChildSpec) -> None:
        """Start a child and keep it running. Raises ConfigurationError if the name is taken."""
        self._ask(lambda: self._start(spec))

    def status(self) -> dict[str, ChildStatus]:
        """Return how every child is."""
        return self._ask(self._status)

    def log(self, name: str) -> Path:
        """Return the log file of a child."""
        return self._logs / f"{name}.log"

    def tail(self, name: str, lines: int = 20) -> str:
        """Return the last lines of a child's log."""
        with self.log(name).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 200 * lines))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])

    def kill(self, name: str) -> None:
        """Kill a child and its group with SIGKILL, as a crash would; it is restarted after the back-off."""
        self._ask(lambda: self._kill(name))

    def restart(self, name: str) -> None:
        """Stop a child in order and start it again at once."""
        self._ask(lambda: self._restart(name))

    def close(self) -> None:
        """Stop all children, the highest stage first, and end. Idempotent."""
        if not self._closed:
            self._ask(self._close)
            self._thread.join()

    # Everything below runs in the supervisor's own thread.

    def _ask(self, job: Callable[[], T]) -> T:
        if self._closed:
            raise ConfigurationError(_CLOSED)
        answer: Future[T] = Future()
        self._jobs.put(lambda: self._serve(answer, job))
        return answer.result(timeout=_CALL_LIMIT)

    def _run(self) -> None:
        while not self._closed:
            with contextlib.suppress(queue.Empty):
                self._jobs.get(timeout=_POLL)()
            self._look()
        while not self._jobs.empty():
            self._jobs.get()()

    def _serve(self, answer: Future[T], job: Callable[[], T]) -> None:
        if self._closed:
            answer.set_exception(ConfigurationError(_CLOSED))
            return
        try:
            answer.set_result(job())
        except Exception as error:  # noqa: BLE001  # handed to the asking thread, which raises it
            answer.set_exception(error)

    def _start(self, spec: ChildSpec) -> None:
        if spec.name in self._children:
            raise ConfigurationError(f"a child named {spec.name!r} runs already: names must be unique")
        child = self._children[spec.name] = _Child(spec)
        self._spawn(child)

    def _spawn(self, child: _Child) -> None:
        child.process = Process(child.spec, self.log(child.spec.name))
        if self._guardian is not None:
            self._guardian.watch(child.process.pid)
        logger.info("started %s (pid %d)", child.spec.name, child.process.pid)

    def _reap(self, child: _Child) -> float:
        """Take an ended (or doomed) child's remains away; returns how long it ran."""
        process, child.process = child.process, None
        if process is None:
            return 0.0
        child.exit_code = process.reap()
        if self._guardian is not None:
            self._guardian.forget(process.pid)
        return time.monotonic() - process.started_at

    def _look(self) -> None:
        for child in self._children.values():
            if child.process is not None and child.process.exited():
                uptime = self._reap(child)
                self._wait(child, uptime, describe_exit(child.exit_code))
            elif child.process is None and time.monotonic() >= child.due:
                child.restarts += 1
                try:
                    self._spawn(child)
                except OSError as error:  # no processes or no disk left: this thread must live on
                    self._wait(child, 0.0, str(error))

    def _wait(self, child: _Child, uptime: float, reason: str) -> None:
        child.wait = self._backoff.next(child.wait, uptime)
        child.due = time.monotonic() + child.wait
        name = child.spec.name
        logger.warning("%s ended (%s) after %.1f s; starting it again in %.1f s", name, reason, uptime, child.wait)

    def _status(self) -> dict[str, ChildStatus]:
        now = time.monotonic()
        return {
            name: ChildStatus(
                name=name,
                pid=child.process.pid if child.process else None,
                restarts=child.restarts,
                uptime=now - child.process.started_at if child.process else 0.0,
                exit_code=child.exit_code,
            )
            for name, child in self._children.items()
        }

    def _child(self, name: str) -> _Child:
        if name not in self._children:
            raise ConfigurationError(f"no child named {name!r}: there are {', '.join(self._children) or 'none'}")
        return self._children[name]

    def _kill(self, name: str) -> None:
        child = self._child(name)
        if child.process is not None:
            child.process.kill()

    def _restart(self, name: str) -> None:
        child = self._child(name)
        self._stop([child])
        child.restarts += 1
        self._spawn(child)

    def _close(self) -> None:
        for stage in sorted({child.spec.stage for child in self._children.values()}, reverse=True):
            self._stop([child for child in self._children.values() if child.spec.stage == stage])
        self._children.clear()
        self._closed = True

    def _stop(self, children: Iterable[_Child]) -> None:
        """TERM to all, KILL to what is left of their groups once they ended or the grace is over."""
        processes = [child.process for child in children if child.process is not None]
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + self._grace
        while time.monotonic() < deadline and not all(process.exited() for process in processes):
            time.sleep(_POLL / 5)
        for child in children:
            self._reap(child)


def describe_exit(code: int | None) -> str:
    """Return an exit code as people read it, for example "SIGKILL" or "exit code 2"."""
    if code is None:
        return "exit code unknown"
    if code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"
