"""A running command: its pipes, its limits, what it wrote and what it used."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from typing import IO, TYPE_CHECKING, Any

from workers.agent import process_table
from workers.agent.output import Output
from workers.agent.privileges import acting_as, prepare_command

if TYPE_CHECKING:
    import resource

CHUNK = 1 << 16
LAST_READS = 64  # chunks read after the exit: more than a pipe holds


class Command:
    """A command that was started.

    Args:
        popen: its process, with three pipes.
        selector: watches the pipes.
        tag: what marks its processes.
        stdin: fed to it, then closed.
        started: on the monotonic clock.
        timeout: seconds.
        cap: bytes kept of each stream.
    """

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        selector: selectors.BaseSelector,
        *,
        tag: str,
        stdin: bytes,
        started: float,
        timeout: float,
        cap: int,
    ) -> None:
        self.pid, self.tag = popen.pid, tag
        root = process_table.look_up(popen.pid)
        self.born = root.born if root else 0
        self.started = started
        self.deadline = started + timeout
        self.ended = 0.0
        self.exit_code = 128 + signal.SIGKILL
        self.verdict = ""
        self.cpu, self.peak = 0.0, 0
        self._popen, self._selector, self._rest = popen, selector, memoryview(stdin)
        self._open: set[IO[bytes]] = set()
        self._stdout, self._stderr = Output(cap), Output(cap)
        for pipe, output in ((popen.stdout, self._stdout), (popen.stderr, self._stderr)):
            if pipe:
                self._watch(pipe, output)
        if popen.stdin:
            os.set_blocking(popen.stdin.fileno(), False)
            selector.register(popen.stdin, selectors.EVENT_WRITE, self._feed)

    @property
    def silent(self) -> bool:
        """Whether nobody can write to it any more."""
        return not self._open

    def account(self, usage: resource.struct_rusage) -> None:
        """Add what one of its processes used."""
        self.cpu += usage.ru_utime + usage.ru_stime
        self.peak = max(self.peak, usage.ru_maxrss * 1024)

    def exited(self, status: int) -> None:
        """Note how the process ended, as a shell says it."""
        self.ended = time.monotonic()
        self.exit_code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def close(self) -> None:
        """Read what is still in the pipes, and close them."""
        for pipe, output in ((self._popen.stdout, self._stdout), (self._popen.stderr, self._stderr)):
            for _ in range(LAST_READS):
                if not pipe or pipe not in self._open or not self._collect(pipe, output):
                    break
            if pipe and pipe in self._open:
                self._shut(pipe)
        if self._popen.stdin and not self._popen.stdin.closed:
            self._shut(self._popen.stdin)
        self._popen.returncode = self.exit_code  # the loop has reaped it: Popen must not look for it

    def report(self) -> tuple[dict[str, Any], bytes]:
        """Return header and body of the answer."""
        stdout, stderr = self._stdout.kept(), self._stderr.kept()
        header = {
            "exit_code": self.exit_code,
            "verdict": self.verdict,
            "duration": (self.ended or time.monotonic()) - self.started,
            "cpu_seconds": self.cpu,
            "peak_memory": self.peak,
            "truncated": self._stdout.truncated or self._stderr.truncated,
            "stdout": len(stdout),
        }
        return header, stdout + stderr

    def _watch(self, pipe: IO[bytes], output: Output) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._open.add(pipe)
        self._selector.register(pipe, selectors.EVENT_READ, lambda: self._collect(pipe, output))

    def _collect(self, pipe: IO[bytes], output: Output) -> bool:
        data = pipe.read(CHUNK)  # None while nothing is there
        if data == b"":
            self._shut(pipe)
        elif data:
            output.add(data)
        return bool(data)

    def _feed(self) -> None:
        pipe = self._popen.stdin
        if pipe is None:
            return
        try:
            self._rest = self._rest[pipe.write(self._rest[:CHUNK]) or 0 :]
        except BrokenPipeError:  # it does not want the rest
            self._rest = memoryview(b"")
        if not self._rest:
            self._shut(pipe)

    def _shut(self, pipe: IO[bytes]) -> None:
        self._open.discard(pipe)
        self._selector.unregister(pipe)
        pipe.close()


def start(header: dict[str, Any], work: str, uid: int, tag: str) -> subprocess.Popen[bytes]:
    """Start the command of a request.

    Args:
        header: `argv`, `env`, `cwd` (below the work folder unless absolute).
        work: the work folder.
        uid: whom it runs as.
        tag: put into the environment of all its processes.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be started.
    """
    env = {**os.environ, **header["env"], process_table.TAG: tag}
    pipe = subprocess.PIPE
    try:
        with acting_as(uid):
            os.chdir(os.path.join(work, header["cwd"]))
        return subprocess.Popen(
            header["argv"], bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=env,
            start_new_session=True, preexec_fn=lambda: prepare_command(uid),
        )  # fmt: skip
    finally:
        os.chdir("/")
