"""What a request runs, whether a process of its own or a command in a session's shell."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import resource

GRACE = 0.02  # s after a command's exit in which its children may still write
NEVER = float("inf")


class Running:
    """Something that runs, its limits and what it used.

    Args:
        tag: what marks its processes.
        started: on the monotonic clock.
        timeout: seconds.
    """

    pid = 0  # of its root process
    born = 0  # none of its processes is older; in clock ticks since boot

    def __init__(self, *, tag: str, started: float, timeout: float) -> None:
        self.tags = {tag, ""}  # of its processes; one that hides its tag may be anybody's
        self.strangers: set[int] = set()  # processes known to be another's, whatever their tag and age
        self.started = started
        self.deadline = started + timeout
        self.ended = 0.0
        self.exit_code = 128 + signal.SIGKILL
        self.verdict = ""
        self.cpu, self.peak = 0.0, 0

    @property
    def wake(self) -> float:
        """When the loop must look at it, on the monotonic clock."""
        return self.ended + GRACE if self.ended else self.deadline

    @property
    def complete(self) -> bool:
        """Whether it has ended and nothing more can come from it."""
        raise NotImplementedError

    @property
    def stopped(self) -> bool:
        """Whether, once its processes are killed, nothing of it goes on."""
        return True

    @property
    def spared(self) -> int:
        """A process that outlives it if it gives in to `interrupt`; 0 for none."""
        return 0

    def account(self, usage: resource.struct_rusage) -> None:
        """Add what one of its processes used."""
        self.cpu += usage.ru_utime + usage.ru_stime
        self.peak = max(self.peak, usage.ru_maxrss * 1024)

    def exited(self, status: int) -> None:
        """Note how its root process ended; `status` is what `os.wait` gives."""
        self.finished(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))

    def finished(self, exit_code: int) -> None:
        """Note that it ended, and how a shell says it."""
        self.ended = time.monotonic()
        self.exit_code = exit_code

    def look(self, now: float) -> None:
        """See what has become of it."""

    def interrupt(self) -> None:
        """Ask the spared process to drop it."""

    def stop(self, verdict: str) -> None:
        """Note that it is going to be killed, and why."""
        self.verdict = verdict

    def close(self) -> None:
        """Let go of whatever it holds."""
        raise NotImplementedError

    def report(self) -> tuple[dict[str, Any], bytes]:
        """Return header and body of the answer."""
        raise NotImplementedError

    def figures(self) -> dict[str, Any]:
        """Return the fields that every report has."""
        return {
            "exit_code": self.exit_code,
            "verdict": self.verdict,
            "duration": (self.ended or time.monotonic()) - self.started,
            "cpu_seconds": self.cpu,
            "peak_memory": self.peak,
        }
