"""A command in a session: it waits for its turn, then runs in the session's shell."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from workers.agent import process_table
from workers.agent.running import NEVER, Running

if TYPE_CHECKING:
    from workers.agent.session import Session


class SessionCommand(Running):
    """A command of a session.

    Args:
        session: where it runs.
        header: `cwd` (empty: where the session is), `env` of a new shell, `timeout`, `cap`.
        text: the script.
        tag: what marks its processes.
        started: when it was asked for, on the monotonic clock; waiting for its turn counts.
    """

    def __init__(self, session: Session, header: dict[str, Any], text: bytes, *, tag: str, started: float) -> None:
        super().__init__(tag=tag, started=started, timeout=float(header["timeout"]))
        self.session, self.tag, self.text = session, tag, text
        self.folder, self.env, self.cap = header["cwd"], header["env"], int(header["cap"])
        self.in_new_shell = self.reached = False  # reached: its shell has read it
        self.wait()
        self._kept: tuple[dict[str, Any], bytes] | None = None

    def wait(self) -> None:
        """It must wait for its turn."""
        self.pid, self.begun, self._next_look = 0, 0.0, NEVER

    def begin(self) -> None:
        """Its turn has come."""
        self.pid, self.born, self.begun = self.session.pid, process_table.now(), time.monotonic()
        self.tags.add(self.session.tag)  # a subshell shows what the shell was started with
        self.strangers = process_table.children(self.pid)  # background jobs of earlier commands
        self._next_look = self.begun + _pause(0.0)

    @property
    def wake(self) -> float:
        """See Running."""
        return self.ended or min(self.deadline, self._next_look)

    @property
    def complete(self) -> bool:
        """See Running. Whatever it wrote itself was in the pipes before the shell said that it ended."""
        return bool(self.ended)

    @property
    def stopped(self) -> bool:
        """See Running."""
        return bool(self.ended) or not self.begun

    @property
    def spared(self) -> int:
        """See Running."""
        return self.session.pid

    def finished(self, exit_code: int) -> None:
        """See Running."""
        super().finished(exit_code)
        self._next_look = NEVER

    def look(self, now: float) -> None:
        """See Running. The shell waits for its children itself, so their memory is not told at their end."""
        if self.begun and now >= self._next_look:
            below = process_table.descendants(self.session.pid)
            self.peak = max([self.peak, *(process_table.peak_memory(found.pid) for found in below)])
            self._next_look = now + _pause(now - self.begun)
        self.session.hear()

    def interrupt(self) -> None:
        """See Running."""
        self.session.interrupt()

    def stop(self, verdict: str) -> None:
        """See Running. What the shell says of killed processes is not the command's output."""
        super().stop(verdict)
        if self.begun:
            self._kept = self.session.output()
            self.session.locate()

    def close(self) -> None:
        """See Running."""
        if self.begun:
            output = self.session.output()
            self._kept = self._kept or output
            self.session.finish()
        else:
            self.session.waiting.remove(self)

    def report(self) -> tuple[dict[str, Any], bytes]:
        """See Running."""
        fields, body = self._kept or ({"truncated": False, "stdout": 0}, b"")
        now = self.ended or time.monotonic()
        begun = self.begun or now
        told = {
            "duration": now - begun,
            "waited": begun - self.started,
            "begun": bool(self.begun),
            "cwd": os.fsencode(self.session.cwd).decode(errors="replace"),
            "restarted": self.session.lost,
        }
        if not self.verdict:
            self.session.lost = False
        return {**self.figures(), **told, **fields}, body


def _pause(elapsed: float) -> float:
    """Seconds to the next look at its memory: looking must stay cheap beside what it looks at."""
    return min(1.0, max(0.02, elapsed / 8))
