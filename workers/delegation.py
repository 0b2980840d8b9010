"""Letting the groups below a version 2 group have limits of their own.

For that the group must hold no process itself: cgroup-v2, "No Internal Process Constraint".
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from workers import group_files

CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
_ROUNDS = 20  # in each, whatever was forked during the last one is moved, too


def delegate(group: Path, leaf: Path) -> None:
    """Move all processes of a group into a leaf below it, made if need be, and enable the controllers. Idempotent.

    Raises:
        OSError: the kernel refuses, or processes keep appearing.
    """
    control = group / "cgroup.subtree_control"
    if set(CONTROLLERS) <= set(control.read_text().split()):
        return
    group_files.make(leaf, exist_ok=True)
    for _ in range(_ROUNDS):
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                group_files.move(pid, leaf)
        try:
            group_files.put(control, " ".join(f"+{name}" for name in CONTROLLERS))
        except OSError as error:
            if error.errno != errno.EBUSY:  # EBUSY: somebody forked before its parent was moved
                raise
        else:
            return
    raise OSError(errno.EBUSY, f"processes kept appearing in it, {_ROUNDS} times in a row")
