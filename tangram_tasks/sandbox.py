"""The sandbox as an action's body sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How one command ended.

    Args:
        exit_code: as a shell would say it: 128 + n for a command killed by signal n.
        stdout: decoded as UTF-8 with replacement; at most the output cap.
        stderr: the same, apart.
        truncated: more output was produced than the cap keeps.
        duration: wall seconds from spawn to exit.
        cpu_seconds: user + system seconds of the command and its children that were waited for.
        peak_memory: bytes of the largest process, as far as the kernel tells.
    """

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool = False
    duration: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0

    @property
    def ok(self) -> bool:
        """Whether the command exited with 0."""
        return self.exit_code == 0


class Sandbox(ABC):
    """A trajectory's isolated computer, for the length of one action. Calls block; they are thread safe."""

    @property
    @abstractmethod
    def cpus(self) -> int:
        """CPU units this action holds now."""

    @property
    @abstractmethod
    def max_cpus(self) -> int:
        """The largest size this action may ever get: start that many workers, the cgroup throttles them."""

    @abstractmethod
    def exec(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes | str = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Run a command and wait for it.

        Args:
            argv: program and arguments; no shell.
            timeout: seconds; never later than the action's own deadline.
            stdin: fed to the command, then closed.
            cwd: working directory inside, by default the work folder.
            env: added to the sandbox's environment.

        Raises:
            ActionTimeout: killed at the deadline with everything it started; the message ends with its last output.
            ActionCancelled: the action was cancelled; everything it started is killed.
            ActionOutOfMemory: the kernel killed it at the memory limit.
            SpawnFailed: it could not be started.
            SandboxError: the sandbox is gone.
        """

    @abstractmethod
    def read_file(self, path: str) -> bytes:
        """Return a file's content. Raises FileNotFoundError, SandboxError."""

    @abstractmethod
    def write_file(self, path: str, data: bytes | str) -> None:
        """Create or replace a file, with its folders. Raises SandboxError."""
