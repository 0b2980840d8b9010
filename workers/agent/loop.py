"""The agent's loop: clients, pipes, dead children and deadlines, whatever comes first.

One thread and one selector, because a fork bomb that took the last process must not keep the agent from killing it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import selectors
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

from workers.agent import files
from workers.agent.call import Call
from workers.agent.command import Command, start
from workers.agent.listing import list_processes
from workers.agent.privileges import acting_as
from workers.agent.reaper import Reaper
from workers.agent.running import NEVER, Running
from workers.agent.session_command import SessionCommand
from workers.agent.sessions import Sessions
from workers.agent.streams import CHUNK

if TYPE_CHECKING:
    import resource


class Loop:
    """Serves the connections of a listening socket for ever.

    Args:
        listener: where clients connect.
        work: the folder that paths are relative to.
        uid: whom commands run as, or NO_USER.
    """

    def __init__(self, listener: socket.socket, work: str, uid: int) -> None:
        self._listener, self._work, self._uid = listener, work, uid
        self._selector = selectors.DefaultSelector()
        self._calls: set[Call] = set()
        self._running: dict[Running, Call] = {}
        self._reaper = Reaper(uid, self._ended)
        self._sessions = Sessions(self._selector, work, uid)
        self._wake, self._waker = socket.socketpair()
        for end in (self._wake, self._waker, listener):
            end.setblocking(False)
        # The only signal handled. TERM, INT and HUP stay unhandled: the kernel then keeps them from PID 1.
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._wake, selectors.EVENT_READ, lambda: self._wake.recv(CHUNK))
        self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def run(self) -> None:
        """Serve for ever."""
        while True:
            times = [running.wake for running in self._running] + [call.give_up for call in self._calls]
            wait = min(times, default=NEVER)
            for key, _ in self._selector.select(None if wait == NEVER else max(0.0, wait - time.monotonic())):
                with contextlib.suppress(OSError, ValueError):  # closed by an earlier event of this round
                    key.data()
            self._reaper.reap()
            self._look(time.monotonic())
            for command, error in self._sessions.begin_waiting():
                self._not_started(self._running.pop(command), error)

    def _accept(self) -> None:
        sock = self._listener.accept()[0]
        self._calls.add(Call(sock, self._selector, serve=self._serve, cancel=self._cancel, closed=self._calls.discard))

    def _serve(self, call: Call, header: dict[str, Any], body: bytes) -> None:
        try:
            if header["op"] == "exec":
                self._execute(call, header, body)
            elif header["op"] == "bash":
                self._queue(call, header, body)
            elif header["op"] == "processes":
                call.answer({}, list_processes(self._uid))
            else:
                if header["op"] == "purge":
                    self._reaper.kill_everything()
                with acting_as(self._uid):
                    answer = files.OPERATIONS[header["op"]](os.path.join(self._work, header["path"]), header, body)
                call.answer(*answer)
        except FileNotFoundError as error:
            call.answer({"error": "missing", "message": str(error)})
        except OSError as error:
            call.answer({"error": "file", "message": str(error)})
        except (LookupError, TypeError, ValueError) as error:
            call.answer({"error": "request", "message": repr(error)})

    def _execute(self, call: Call, header: dict[str, Any], body: bytes) -> None:
        tag, timeout, cap = _new_tag(header), float(header["timeout"]), int(header["cap"])
        started = time.monotonic()
        try:
            popen = start(header, self._work, header.get("uid", self._uid), tag)
        except (OSError, subprocess.SubprocessError) as error:
            self._not_started(call, error)
            return
        call.running = Command(popen, self._selector, tag=tag, stdin=body, started=started, timeout=timeout, cap=cap)
        self._running[call.running] = call

    def _queue(self, call: Call, header: dict[str, Any], body: bytes) -> None:
        session = self._sessions.named(header["session"])
        command = SessionCommand(session, header, body, tag=_new_tag(header), started=time.monotonic())
        call.running = command
        self._running[command] = call
        session.waiting.append(command)

    def _not_started(self, call: Call, error: Exception) -> None:
        code = getattr(error, "errno", None)
        if code == errno.EAGAIN:  # no process is left: without this none ever would be
            self._reaper.kill_everything()
        call.answer({"error": "spawn", "errno": code, "message": str(error)})

    def _look(self, now: float) -> None:
        for running in list(self._running):
            running.look(now)
            if running.complete or (running.ended and now >= running.wake):
                self._finish(running)
            elif not running.ended and now >= running.deadline:
                self._kill(running, "timed_out")
        for call in [call for call in self._calls if now >= call.give_up]:
            call.close()

    def _cancel(self, running: Running) -> None:
        self._kill(running, "cancelled")

    def _kill(self, running: Running, verdict: str) -> None:
        running.stop(verdict)
        if running.pid:  # its turn has come
            self._reaper.kill(running)
        self._finish(running)

    def _finish(self, running: Running) -> None:
        running.close()
        self._running.pop(running).answer(*running.report())

    def _ended(self, pid: int, status: int, usage: resource.struct_rusage) -> Running | None:
        if self._sessions.shell_ended(pid, status, usage):
            return None  # it has been accounted for bit by bit
        ended = next((running for running in self._running if running.pid == pid and not running.ended), None)
        if ended:
            ended.exited(status)
        return ended


def _new_tag(header: dict[str, Any]) -> str:
    """Return a tag that nobody can guess; it also says to people whose the processes are."""
    names = (str(header.get("session", "")), str(header.get("action", "")))
    return "/".join([os.urandom(8).hex(), *(re.sub(r"[^\w.:-]", "_", name)[:80] for name in names)])
