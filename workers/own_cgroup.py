"""Control groups that we make ourselves, for sandboxes without a container engine."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from tangram_tasks.errors import SandboxError
from tangram_tasks.resources import MIB
from workers import group_files
from workers.cgroups import Cgroup, find, write
from workers.delegation import delegate

_WORKER_LEAF = "tangram-worker"
_GONE_TIME = 5.0  # s that killed processes get to leave a group


def create_group(name: str, *, memory: int, pids: int, root: Path = Path("/")) -> Cgroup:
    """Make a group below the one this process is in.

    Args:
        name: of the new group.
        memory: its limit in MiB, swap included.
        pids: its limit of processes and threads.
        root: see `workers.cgroups.find`.

    Raises:
        SandboxError: it is not allowed; the message says how to allow it.
    """
    parent = _parent(root)
    group = Cgroup(parent.version, {controller: folder / name for controller, folder in parent.folders.items()})
    try:
        if parent.version == 2:
            delegate(parent.folders["cpu"], parent.folders["cpu"] / _WORKER_LEAF)
        for folder in set(group.folders.values()):
            group_files.make(folder)
        _limit(group, parent, memory * MIB, pids)
    except (OSError, SandboxError) as error:
        with contextlib.suppress(OSError):
            remove_group(group)
        raise SandboxError(
            f"cannot make a control group: {error}. Run the worker as root, or under "
            "`systemd-run --user --scope -p Delegate=yes`"
        ) from None
    return group


def join_files(group: Cgroup) -> list[str]:
    """Return the files that a process writes its id to in order to join."""
    return sorted({str(folder / "cgroup.procs") for folder in group.folders.values()})


def group_named(name: str, root: Path = Path("/")) -> Cgroup:
    """Return the group of that name as `create_group` would have made it, whether it exists or not."""
    parent = _parent(root)
    return Cgroup(parent.version, {controller: folder / name for controller, folder in parent.folders.items()})


def remove_group(group: Cgroup) -> None:
    """Kill everything in it and remove it. Idempotent. Raises SandboxError if something will not die."""
    give_up = time.monotonic() + _GONE_TIME
    remaining = [folder for folder in set(group.folders.values()) if folder.is_dir()]
    while remaining:
        for folder in remaining:
            _kill_members(folder)
            with contextlib.suppress(OSError):  # busy until the last process is gone
                group_files.remove(folder)
        remaining = [folder for folder in remaining if folder.is_dir()]
        if remaining and time.monotonic() > give_up:
            raise SandboxError(f"processes in {remaining[0]} do not die: see `cat {remaining[0]}/cgroup.procs`")
        if remaining:
            time.sleep(0.005)


def _kill_members(folder: Path) -> None:
    try:
        members = (folder / "cgroup.procs").read_text().split()
    except OSError:  # the group went meanwhile
        return
    for pid in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def _parent(root: Path) -> Cgroup:
    mine = find("self", root=root)
    if mine.version == 2 and mine.folders["cpu"].name == _WORKER_LEAF:
        return Cgroup(2, {controller: folder.parent for controller, folder in mine.folders.items()})
    return mine


def _limit(group: Cgroup, parent: Cgroup, memory: int, pids: int) -> None:
    folder = group.folders["memory"]
    if group.version == 2:
        write(folder / "memory.max", str(memory))
        if (folder / "memory.swap.max").exists():
            write(folder / "memory.swap.max", "0")
    else:
        for file in ("cpuset.mems", "cpuset.cpus"):  # a new cpuset is empty, and nobody may join it
            write(group.folders["cpuset"] / file, (parent.folders["cpuset"] / file).read_text().strip())
        write(folder / "memory.limit_in_bytes", str(memory))
        if (folder / "memory.memsw.limit_in_bytes").exists():
            write(folder / "memory.memsw.limit_in_bytes", str(memory))
    write(group.folders["pids"] / "pids.max", str(pids))
