"""What the agent and its commands may do, set with plain system calls."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from typing import Iterator  # noqa: UP035  # Python 3.8 has no generic collections.abc

NO_USER = -1  # commands run as the agent does
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_prctl = ctypes.CDLL(None).prctl


def protect_agent(work: str, uid: int) -> None:
    """Close the agent to its commands, own the work folder for them, and adopt their orphans."""
    os.umask(0o022)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _harden()
    if uid != NO_USER:
        os.setgroups([])
        if os.stat(work).st_uid != uid:
            os.chown(work, uid, uid)


def prepare_command(uid: int) -> None:
    """In the child, before its program is loaded: be nicer than the agent, first to go, and without privileges."""
    os.nice(10)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # refused in a user namespace
        file.write("500")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if uid != NO_USER:
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if os.getppid() != 1:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def acting_as(uid: int) -> Iterator[None]:
    """Touch files as the sandbox's user: the agent's own root has no power over permissions."""
    if uid == NO_USER:
        yield
        return
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        _harden()


def _harden() -> None:
    """Keep commands out of the agent's memory, and die with whoever started it: every change of user resets both."""
    _prctl(_PR_SET_DUMPABLE, 0)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
