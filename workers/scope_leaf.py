"""A control group of our own below a container's systemd scope, where systemd does not reset what we write.

systemd owns the attributes of a scope even when it is delegated, and writes them again whenever another unit starts
after a reload; the groups below the scope are ours (systemd, CGROUP_DELEGATION).
"""

from __future__ import annotations

from pathlib import Path

from tangram_tasks.errors import SandboxError
from workers.cgroups import Cgroup
from workers.delegation import delegate

LEAF = "tangram"


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
    try:
        delegate(scope, scope / LEAF)
    except OSError as error:
        raise SandboxError(f"cannot make a control group below {scope}: {error.strerror}") from None
    return _below(group, scope)


def _below(group: Cgroup, scope: Path) -> Cgroup:
    leaf = scope / LEAF
    return Cgroup(2, {**dict.fromkeys(group.folders, scope), "cpu": leaf, "cpuset": leaf})
