"""Ends what must not go on, and takes note of every process that has ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Callable  # noqa: UP035  # Python 3.8 has no generic collections.abc

from workers.agent.privileges import acting_as
from workers.agent.process_table import descendants, tag_of
from workers.agent.running import Running

if TYPE_CHECKING:
    import resource

KILL_TIME = 3.0  # s after which the agent stops waiting for killed processes to die
INTERRUPT_TIME = 0.5  # s that a spared process has to give in
_ROUND = 0.002
_INTERRUPT_ROUND = 0.05


class Reaper:
    """Kills and reaps.

    Args:
        uid: whom commands run as.
        ended: is told of an ended process: its id, its status, what it used; returns whose root it was.
    """

    def __init__(self, uid: int, ended: Callable[[int, int, resource.struct_rusage], Running | None]) -> None:
        self._uid, self._ended = uid, ended
        self._doomed: dict[int, Running] = {}  # killed on behalf of somebody, not reaped yet

    def reap(self) -> None:
        """Take note of every process that has ended."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            owner = self._ended(pid, status, usage)
            owner = self._doomed.pop(pid, owner) or owner
            if owner:
                owner.account(usage)

    def kill(self, running: Running) -> None:
        """Kill every process that is not older than it and not known to be another's.

        The process that it spares is interrupted, and dies too if it does not give in.
        """
        begun = time.monotonic()
        ask_again = begun
        while (now := time.monotonic()) < begun + KILL_TIME:
            patient = now < begun + INTERRUPT_TIME
            if patient and now >= ask_again and not running.stopped:
                running.interrupt()
                ask_again = now + _INTERRUPT_ROUND
            victims = self._victims_while_frozen(running, running.spared if patient or running.stopped else 0)
            if not victims and running.stopped:
                break
            self._doomed.update(dict.fromkeys(set(victims) - {running.pid}, running))
            time.sleep(_ROUND)
            self.reap()
            running.look(time.monotonic())
        self.reap()
        self._doomed.clear()

    def kill_everything(self) -> None:
        """Kill all but the agent."""
        give_up = time.monotonic() + KILL_TIME
        _signal_all(signal.SIGKILL)
        while os.getpid() == 1 and descendants(1) and time.monotonic() < give_up:
            time.sleep(_ROUND)
            self.reap()

    def _victims_while_frozen(self, running: Running, spared: int) -> list[int]:
        """Kill whom we find, with everything stopped meanwhile: nobody can fork faster than we look."""
        _signal_all(signal.SIGSTOP)
        try:
            victims = self._victims(running, spared)
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return victims
        finally:
            _signal_all(signal.SIGCONT)

    def _victims(self, running: Running, spared: int) -> list[int]:
        suspects = [found.pid for found in descendants(os.getpid()) if found.born >= running.born]
        with acting_as(self._uid):  # without CAP_SYS_PTRACE only the same user may look at an environment
            victims = {pid for pid in suspects if tag_of(pid) in running.tags}
        if running.pid and not running.ended:
            victims.add(running.pid)  # the shell of a session is older
        return sorted(victims - running.strangers - {spared})


def _signal_all(number: signal.Signals) -> None:
    """Signal everything but the agent, at one stroke; not outside of a PID namespace, where it would hit the host."""
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)
