"""The agent's loop: clients, pipes, dead children and deadlines, whatever comes first.

One thread and one selector, because a fork bomb that took the last process must not keep the agent from killing it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import socket
import subprocess
import time
from typing import Any

from workers.agent import files
from workers.agent.call import NEVER, Call
from workers.agent.command import CHUNK, Command, start
from workers.agent.privileges import acting_as
from workers.agent.process_table import descendants, tag_of

GRACE = 0.02  # s after a command's exit in which its children may still write
KILL_TIME = 3.0  # s after which the agent stops waiting for killed processes to die


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
        self._commands: dict[Command, Call] = {}
        self._doomed: dict[int, Command] = {}  # killed on behalf of a command, not reaped yet
        self._served = 0
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
            ends = [command.ended + GRACE if command.ended else command.deadline for command in self._commands]
            wait = min(ends + [call.give_up for call in self._calls], default=NEVER)
            for key, _ in self._selector.select(None if wait == NEVER else max(0.0, wait - time.monotonic())):
                with contextlib.suppress(OSError, ValueError):  # closed by an earlier event of this round
                    key.data()
            self._reap()
            self._expire(time.monotonic())

    def _accept(self) -> None:
        sock = self._listener.accept()[0]
        self._calls.add(Call(sock, self._selector, serve=self._serve, cancel=self._cancel, closed=self._calls.discard))

    def _serve(self, call: Call, header: dict[str, Any], body: bytes) -> None:
        try:
            if header["op"] == "exec":
                self._execute(call, header, body)
            else:
                if header["op"] == "purge":
                    self._kill_everything()
                with acting_as(self._uid):
                    answer = files.OPERATIONS[header["op"]](os.path.join(self._work, header["path"]), body)
                call.answer({}, answer)
        except FileNotFoundError as error:
            call.answer({"error": "missing", "message": str(error)})
        except OSError as error:
            call.answer({"error": "file", "message": str(error)})
        except (LookupError, TypeError, ValueError) as error:
            call.answer({"error": "request", "message": repr(error)})

    def _execute(self, call: Call, header: dict[str, Any], body: bytes) -> None:
        self._served += 1
        tag, timeout, cap = str(self._served), float(header["timeout"]), int(header["cap"])
        started = time.monotonic()
        try:
            popen = start(header, self._work, header.get("uid", self._uid), tag)
        except (OSError, subprocess.SubprocessError) as error:
            code = getattr(error, "errno", None)
            if code == errno.EAGAIN:  # no process is left: without this none ever would be
                self._kill_everything()
            call.answer({"error": "spawn", "errno": code, "message": str(error)})
            return
        call.command = Command(popen, self._selector, tag=tag, stdin=body, started=started, timeout=timeout, cap=cap)
        self._commands[call.command] = call

    def _expire(self, now: float) -> None:
        for command in list(self._commands):
            if command.ended:
                if command.silent or now >= command.ended + GRACE:
                    self._finish(command)
            elif now >= command.deadline:
                self._kill(command, "timed_out")
        for call in [call for call in self._calls if now >= call.give_up]:
            call.close()

    def _cancel(self, command: Command) -> None:
        self._kill(command, "cancelled")

    def _finish(self, command: Command) -> None:
        command.close()
        self._commands.pop(command).answer(*command.report())

    def _kill(self, command: Command, verdict: str) -> None:
        """Kill every process that is not older than the command and not known to be another's; then answer."""
        command.verdict = verdict
        give_up = time.monotonic() + KILL_TIME
        while (victims := self._victims_while_frozen(command)) and time.monotonic() < give_up:
            self._doomed.update(dict.fromkeys(victims, command))
            time.sleep(0.002)
            self._reap()
        self._reap()
        self._doomed.clear()
        self._finish(command)

    def _kill_everything(self) -> None:
        give_up = time.monotonic() + KILL_TIME
        _signal_all(signal.SIGKILL)
        while os.getpid() == 1 and descendants(1) and time.monotonic() < give_up:
            time.sleep(0.002)
            self._reap()

    def _victims_while_frozen(self, command: Command) -> list[int]:
        """Kill whom we find, with everything stopped meanwhile: nobody can fork faster than we look."""
        _signal_all(signal.SIGSTOP)
        try:
            victims = self._victims(command)
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return victims
        finally:
            _signal_all(signal.SIGCONT)

    def _victims(self, command: Command) -> list[int]:
        suspects = [found.pid for found in descendants(os.getpid()) if found.born >= command.born]
        with acting_as(self._uid):  # without CAP_SYS_PTRACE only the same user may look at an environment
            return [pid for pid in suspects if tag_of(pid) in (command.tag, "")]

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            ended = next((command for command in self._commands if command.pid == pid and not command.ended), None)
            if ended:
                ended.exited(status)
            owner = self._doomed.pop(pid, ended) or ended
            if owner:
                owner.account(usage)


def _signal_all(number: signal.Signals) -> None:
    """Signal everything but the agent, at one stroke; not outside of a PID namespace, where it would hit the host."""
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)
