"""The sandbox's bash sessions by name."""

from __future__ import annotations

import selectors
import subprocess
from typing import TYPE_CHECKING, Iterator  # noqa: UP035  # Python 3.8 has no generic collections.abc

from workers.agent.session import Session

if TYPE_CHECKING:
    import resource

    from workers.agent.session_command import SessionCommand

MOST = 64


class Sessions:
    """Keeps them, and gives each command its turn.

    Args:
        selector: watches their pipes.
        work: the folder they start in.
        uid: whom they run as.
    """

    def __init__(self, selector: selectors.BaseSelector, work: str, uid: int) -> None:
        self._selector, self._work, self._uid = selector, work, uid
        self._sessions: dict[str, Session] = {}

    def named(self, name: str) -> Session:
        """Return a session, a new one if need be. Raises ValueError if there are too many."""
        if name not in self._sessions:
            if len(self._sessions) >= MOST:
                self._sessions = {
                    key: session for key, session in self._sessions.items() if session.pid or not session.idle
                }
            if len(self._sessions) >= MOST:
                raise ValueError(f"{MOST} bash sessions are open in this sandbox: `exit` one, or use one again")
            self._sessions[name] = Session(self._selector, self._work, self._uid)
        return self._sessions[name]

    def begin_waiting(self) -> Iterator[tuple[SessionCommand, Exception]]:
        """Begin whatever can begin; yield the commands that could not, and why."""
        for session in list(self._sessions.values()):
            while session.current is None and session.waiting:
                command = session.waiting.popleft()
                try:
                    session.begin(command)
                except (OSError, ValueError, subprocess.SubprocessError) as error:
                    yield command, error

    def shell_ended(self, pid: int, status: int, usage: resource.struct_rusage) -> bool:
        """Tell the session whose shell this was. Returns whether it was one."""
        for session in self._sessions.values():
            if session.pid == pid:
                session.shell_ended(status, usage.ru_utime + usage.ru_stime)
                return True
        return False
