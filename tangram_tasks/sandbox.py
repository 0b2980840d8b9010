"""The sandbox as an action's body sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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
        cwd: of a bash session, where it is now.
        restarted: of a bash session: its shell ended, with this command or since the one before. The next command
            runs in a new shell in the same folder; variables and functions are gone.
        raw: standard output and standard error as they came.
    """

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool = False
    duration: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    cwd: str = ""
    restarted: bool = False
    raw: tuple[bytes, bytes] | None = field(default=None, repr=False, compare=False)

    @property
    def stdout_bytes(self) -> bytes:
        """Standard output as it came, not decoded."""
        return self.stdout.encode() if self.raw is None else self.raw[0]

    @property
    def stderr_bytes(self) -> bytes:
        """Standard error as it came, not decoded."""
        return self.stderr.encode() if self.raw is None else self.raw[1]

    @property
    def ok(self) -> bool:
        """Whether the command exited with 0."""
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class SandboxProcess:
    """A process that runs in a sandbox.

    Args:
        pid: its id inside.
        command: its command line, shortened.
        started: seconds since 1970.
        cpu_seconds: user + system seconds so far, without its children's.
        action: the id of the action that started it; empty if it hides that.
        session: the bash session that it was started in; empty for none.
    """

    pid: int
    command: str
    started: float
    cpu_seconds: float
    action: str
    session: str


class Sandbox(ABC):
    """A trajectory's isolated computer, for the length of one action. Calls block; they are thread safe."""

    @property
    @abstractmethod
    def cpus(self) -> int:
        """Cores this action holds now, rounded up, at least 1: start that many workers. `nproc` inside says the same.

        Where a node's units are parts of a core they are given as time on any core: there `nproc`, OpenMP and their
        kin follow OMP_NUM_THREADS, set for each command (for a bash session, when its shell starts) unless the
        trajectory or the command sets it.
        """

    @property
    @abstractmethod
    def max_cpus(self) -> int:
        """As `cpus`, at the largest size this action may ever get. If that may come while a command runs, start so
        many workers: the cgroup throttles them."""

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
            ActionOutOfMemory: the kernel killed it at the memory limit. These three carry `result`, as far as it got.
            SpawnFailed: it could not be started; NoProcessesLeft: because the sandbox has too many.
            SandboxError: the sandbox is gone.
        """

    @abstractmethod
    def bash(
        self, command: str, *, session: str = "main", timeout: float | None = None, cwd: str | None = None
    ) -> ExecResult:
        """Run a script in a bash that goes on after it: folder, variables and functions are kept.

        Commands of one session run one after another; waiting for its turn counts as running. What background jobs
        write between two commands comes with the second. Standard input is empty. A session whose shell ended
        (`exit`, `set -e`, killed) goes on in a new one, see `ExecResult.restarted`; so does one that could not be
        freed from a command that ran out of time.

        Args:
            command: the script.
            session: letters, digits, `.`, `_`, `:` and `-`, at most 64; a new name starts a new session.
            timeout: seconds; never later than the action's own deadline.
            cwd: run just this command there (below the work folder unless absolute), instead of where the session is.

        Raises:
            as `exec`.
        """

    @abstractmethod
    def processes(self) -> list[SandboxProcess]:
        """Return what runs in the sandbox, also what earlier actions started. Raises SandboxError."""

    @abstractmethod
    def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file's content, however large.

        Args:
            path: below the work folder unless absolute.
            offset: bytes to skip.
            length: bytes to read at most; None reads to the end.

        Raises:
            FileNotFoundError: there is no such file.
            SandboxError: it is no regular file, may not be read, or was replaced meanwhile.
        """

    @abstractmethod
    def write_file(self, path: str, data: bytes | str, *, append: bool = False) -> None:
        """Create or replace a file, with its folders, however large.

        Args:
            path: below the work folder unless absolute.
            data: its content; text is written as UTF-8.
            append: add to its end instead.

        Raises:
            SandboxError: it may not be written, or there is no space; a part of it may have been.
        """
