"""A named bash that lives as long as the sandbox, and runs one command after another.

Commands and news of them pass by a socket and a file in memory that only the shell holds, so no output can be taken
for news. News carry the command's tag, which is not to be guessed: what is said of another command is ignored.
A command can lie about itself, as any can with its exit code; it gains nothing by it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import socket
import subprocess
from collections import deque
from typing import Any, Deque  # noqa: UP035  # Python 3.8 has no generic deque

from workers.agent import process_table
from workers.agent.command import enter
from workers.agent.privileges import prepare_command
from workers.agent.session_command import SessionCommand
from workers.agent.shell_driver import EXIT, INTERRUPT, News, driver, parse_news
from workers.agent.streams import CHUNK, Streams

_FIRST_DESCRIPTOR = 200  # above those that scripts use by number
_LONGEST_NEWS = 1 << 16


class Session:
    """One session; its shell is started by the first command, and again after it ended.

    Args:
        selector: watches the shell's pipes.
        work: the folder it starts in.
        uid: whom it runs as.
    """

    def __init__(self, selector: selectors.BaseSelector, work: str, uid: int) -> None:
        self.pid = 0  # of the shell; 0 while there is none
        self.tag = ""  # of the shell itself
        self.cwd = work
        self.lost = False  # a shell ended, and no result has told so yet
        self.current: SessionCommand | None = None
        self.waiting: Deque[SessionCommand] = deque()  # noqa: UP006  # Python 3.8
        self._selector, self._work, self._uid = selector, work, uid
        self._popen: subprocess.Popen[bytes] | None = None
        self._streams: Streams | None = None
        self._control: socket.socket | None = None
        self._text = -1
        self._heard = bytearray()
        self._cpu = 0.0  # s that the shell and its children had used when it was last heard of

    @property
    def idle(self) -> bool:
        """Whether it has nothing to run."""
        return self.current is None and not self.waiting

    def begin(self, command: SessionCommand) -> None:
        """Run a command in the shell. Raises OSError, ValueError, subprocess.SubprocessError."""
        folder = os.path.join(self._work, command.folder) if command.folder else ""
        try:
            if folder:
                enter(folder, self._uid)  # only to see that it can be entered
        finally:
            os.chdir("/")
        command.in_new_shell = not self.pid
        if not self.pid:
            self._start(command)
        os.ftruncate(self._text, 0)
        _write_all(self._text, command.text)
        command.begin()
        if self._control:
            self._control.sendall(f"{command.tag}\0{folder}\0".encode())
        self.current = command

    def interrupt(self) -> None:
        """Make the shell drop the command; it gives in between two steps of the script, unless it hides."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, INTERRUPT)

    def hear(self) -> None:
        """Take the shell's news."""
        while self._control:
            try:
                data = self._control.recv(CHUNK)
            except BlockingIOError:
                break
            if not data:
                self._hang_up(self._control)
            self._heard += data
        *messages, rest = bytes(self._heard).split(b"\0")
        self._heard = bytearray(rest[-_LONGEST_NEWS:])
        for message in messages:
            news = parse_news(message)
            if news:
                self._take(news)
            elif self.current and message == self.current.tag.encode():
                self.current.reached = True

    def shell_ended(self, status: int, cpu: float) -> None:
        """Note that the shell is gone.

        Args:
            status: as `os.wait` gives it.
            cpu: seconds that it and its children have used.
        """
        self.hear()
        self.pid, self.lost = 0, True
        if self.current and not self.current.reached and not self.current.in_new_shell:
            self.current.wait()  # the shell had died before: the next one runs it
            self.waiting.appendleft(self.current)
            self.current = None
        elif self.current and not self.current.ended:
            self.current.cpu += cpu - self._cpu
            self.current.exited(status)
        if self._popen:
            self._popen.returncode = 0  # the loop has reaped it: Popen must not look for it
        if self.current is None:
            self._let_go()

    def output(self) -> tuple[dict[str, Any], bytes]:
        """Return what was written since the last time, and forget it."""
        if self._streams is None:
            return {"truncated": False, "stdout": 0}, b""
        self._streams.drain()
        fields, body = self._streams.report()
        self._streams.begin_anew(self.current.cap if self.current else 1)
        return fields, body

    def finish(self) -> None:
        """Be ready for the next command."""
        self.current = None
        if self.pid:
            os.ftruncate(self._text, 0)
        else:
            self._let_go()

    def locate(self) -> None:
        """Note the shell's working directory, before it is killed."""
        self.cwd = process_table.folder_of(self.pid, self._uid) or self.cwd

    def _take(self, news: News) -> None:
        if self.current and news.tag == self.current.tag:
            self.current.cpu += news.cpu - self._cpu
            self.current.finished(news.code)
        elif news.tag != EXIT:
            return
        self.cwd, self._cpu = news.cwd, news.cpu

    def _start(self, command: SessionCommand) -> None:
        self._let_go()
        ours, theirs = socket.socketpair()
        text = os.memfd_create("command")
        shared = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR) for end in (theirs.fileno(), text)]
        self._control, self._text = ours, text
        tag = "shell-" + command.tag  # not the first command's: what that leaves behind must outlive the others
        env = {**os.environ, **command.env, process_table.TAG: tag}
        pipe = subprocess.PIPE
        try:
            try:
                enter(self.cwd, self._uid)
            except OSError:  # it was removed
                enter(self._work, self._uid)
            popen = subprocess.Popen(
                ["bash", "-c", driver(*shared), "bash"], bufsize=0, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
                env=env, pass_fds=shared, start_new_session=True, preexec_fn=lambda: prepare_command(self._uid),
            )  # fmt: skip
        finally:
            os.chdir("/")
            theirs.close()
            for end in shared:
                os.close(end)
        ours.setblocking(False)
        self._selector.register(ours, selectors.EVENT_READ, self.hear)
        self._popen, self._streams = popen, Streams(popen, self._selector, command.cap)
        self.pid, self.tag, self._cpu, self._heard = popen.pid, tag, 0.0, bytearray()

    def _let_go(self) -> None:
        """Close what was shared with a shell that is gone."""
        if self._streams:
            self._streams.close()
            self._streams = None
        if self._control:
            self._hang_up(self._control)
        if self._text >= 0:
            os.close(self._text)
            self._text = -1

    def _hang_up(self, control: socket.socket) -> None:
        with contextlib.suppress(KeyError):  # the shell could not be started
            self._selector.unregister(control)
        control.close()
        self._control = None


def _write_all(descriptor: int, text: bytes) -> None:
    done = 0
    while done < len(text):
        done += os.pwrite(descriptor, text[done:], done)
