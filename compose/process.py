"""One child process: its own session and process group, its output in its own log file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_WRAPPER = Path(__file__).with_name("child.py")
_LOG_LIMIT = 16 * 2**20


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run.

    Args:
        name: unique in its supervisor; names the log file.
        argv: program and arguments.
        env: added to this process's environment.
        stage: children of a higher stage start later and stop earlier.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    stage: int = 0


class Process:
    """A running child that dies with the thread that made it, by SIGKILL from the kernel (Linux).

    Args:
        spec: what to run.
        log: its output is appended here; above 16 MiB the old output is kept once, as `NAME.log.1`.
    """

    def __init__(self, spec: ChildSpec, log: Path) -> None:
        self.spec = spec
        if log.exists() and log.stat().st_size > _LOG_LIMIT:
            log.replace(log.with_suffix(".log.1"))
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_WRAPPER), str(os.getpid()), *spec.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **spec.env},
                start_new_session=True,
            )
        self.started_at = time.monotonic()

    @property
    def pid(self) -> int:
        """Its process id, which is also its group's id."""
        return self._popen.pid

    def exited(self) -> bool:
        """Whether it ended. It stays a zombie until `reap`, so that its group id cannot become somebody else's."""
        if self._popen.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def terminate(self) -> None:
        """Ask it to stop in order (SIGTERM)."""
        if not self.exited():
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and whatever it left in its group with SIGKILL."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Kill what is left of its group, wait for it and return its exit code (-n for signal n)."""
        self.kill()
        return self._popen.wait()
