"""A control group of our own below a container's systemd scope, where systemd does not reset what we write.

systemd owns the attributes of a scope even when it is delegated, and writes them again whenever another unit starts
after a reload; of the groups below the scope it only says that they are ours (systemd, CGROUP_DELEGATION). The kernel
lets a group with controllers below it hold no processes itself: cgroup-v2, "No Internal Process Constraint".
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from tangram_tasks.errors import SandboxError
from workers.cgroups import Cgroup

LEAF = "tangram"
_CONTROLLERS = "+cpu +cpuset +memory +pids"
_ROUNDS = 20  # in each, whatever was forked during the last one is moved, too


def own_leaf(group: Cgroup) -> Cgroup:
    """Return the group in which CPU time is set: a leaf below a systemd scope, made if need be; else the group itself.

    Limits of memory and processes stay those of the container. Idempotent.

    Raises:
        SandboxError: the kernel refuses; processes that were moved already stay in the leaf.
    """
    scope = group.folders["cpu"]
    if scope.name == LEAF:
        return _below(group, scope.parent)
    if group.version != 2 or scope.suffix != ".scope":
        return group
    leaf = scope / LEAF
    try:
        leaf.mkdir(exist_ok=True)
        _vacate(scope, leaf)
    except OSError as error:
        raise SandboxError(f"cannot make a control group below {scope}: {error.strerror}") from None
    return _below(group, scope)


def _vacate(scope: Path, leaf: Path) -> None:
    """Move every process down, and let the leaf have controllers. Raises OSError."""
    for _ in range(_ROUNDS):
        for pid in (scope / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                (leaf / "cgroup.procs").write_text(pid)
        try:
            (scope / "cgroup.subtree_control").write_text(_CONTROLLERS)
        except OSError as error:
            if error.errno != errno.EBUSY:  # EBUSY: somebody forked before its parent was moved
                raise
        else:
            return
    raise OSError(errno.EBUSY, f"processes keep appearing in it, {_ROUNDS} times in a row")


def _below(group: Cgroup, scope: Path) -> Cgroup:
    leaf = scope / LEAF
    return Cgroup(2, {**dict.fromkeys(group.folders, scope), "cpu": leaf, "cpuset": leaf})
