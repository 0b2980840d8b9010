"""A running command: a process of its own, with its pipes."""

from __future__ import annotations

import os
import selectors
import subprocess
from typing import Any

from workers.agent import process_table
from workers.agent.privileges import acting_as, prepare_command
from workers.agent.running import Running
from workers.agent.streams import CHUNK, Streams


class Command(Running):
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
        super().__init__(tag=tag, started=started, timeout=timeout)
        self.pid = popen.pid
        root = process_table.look_up(popen.pid)
        self.born = root.born if root else 0
        self._popen, self._selector, self._rest = popen, selector, memoryview(stdin)
        self._streams = Streams(popen, selector, cap)
        if popen.stdin:
            os.set_blocking(popen.stdin.fileno(), False)
            selector.register(popen.stdin, selectors.EVENT_WRITE, self._feed)

    @property
    def complete(self) -> bool:
        """See Running."""
        return bool(self.ended) and self._streams.silent

    def close(self) -> None:
        """See Running."""
        self._streams.close()
        self._shut_stdin()
        self._popen.returncode = self.exit_code  # the loop has reaped it: Popen must not look for it

    def report(self) -> tuple[dict[str, Any], bytes]:
        """See Running."""
        fields, body = self._streams.report()
        return {**self.figures(), **fields}, body

    def _feed(self) -> None:
        pipe = self._popen.stdin
        if pipe is None:
            return
        try:
            self._rest = self._rest[pipe.write(self._rest[:CHUNK]) or 0 :]
        except BrokenPipeError:  # it does not want the rest
            self._rest = memoryview(b"")
        if not self._rest:
            self._shut_stdin()

    def _shut_stdin(self) -> None:
        pipe = self._popen.stdin
        if pipe and not pipe.closed:
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
        enter(os.path.join(work, header["cwd"]), uid)
        return subprocess.Popen(
            header["argv"], bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=env,
            start_new_session=True, preexec_fn=lambda: prepare_command(uid),
        )  # fmt: skip
    finally:
        os.chdir("/")


def enter(folder: str, uid: int) -> None:
    """Make it the working directory, if that user may. Raises OSError."""
    with acting_as(uid):
        os.chdir(folder)
