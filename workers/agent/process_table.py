"""Who runs in the sandbox, and which request started it."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from workers.agent.privileges import acting_as

TAG = "TANGRAM_EXEC"  # in the environment of whatever a request starts: which request it was
TICKS = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One line of the process table; `born` and `cpu` are in clock ticks, since boot and in all."""

    pid: int
    parent: int
    born: int
    cpu: int
    dead: bool


def now() -> int:
    """Return the time in clock ticks since boot."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS)


def look_up(pid: int) -> Process | None:
    """Return the process with this id, if there is one."""
    content = _read(f"/proc/{pid}/stat")
    if not content:
        return None
    fields = content.rpartition(b") ")[2].split()
    return Process(pid, int(fields[1]), int(fields[19]), int(fields[11]) + int(fields[12]), fields[0] in (b"Z", b"X"))


def descendants(root: int) -> list[Process]:
    """Return every living process below `root`: if it is an agent, orphans come back to it, so none escapes."""
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        found = look_up(int(name)) if name.isdigit() else None
        if found:
            children.setdefault(found.parent, []).append(found)
    below = list(children.get(root, ()))
    for found in below:  # grows while it is read
        below.extend(children.get(found.pid, ()))
    return [found for found in below if not found.dead]


def children(pid: int) -> set[int]:
    """Return its direct children, as far as the kernel tells without a look at every process."""
    return {int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()}


def tag_of(pid: int) -> str:
    """Return the tag of the request that started this process; empty when it hides it."""
    return variable(pid, TAG)


def variable(pid: int, name: str) -> str:
    """Return an environment variable that the process was started with; empty if it has none, or is not ours."""
    environment = b"\0" + _read(f"/proc/{pid}/environ")
    return environment.partition(f"\0{name}=".encode())[2].partition(b"\0")[0].decode(errors="replace")


def command_line(pid: int) -> str:
    """Return its arguments, a space between two; empty for a process that is no longer there."""
    return _read(f"/proc/{pid}/cmdline").rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")


def peak_memory(pid: int) -> int:
    """Return the most bytes it ever had in memory; 0 for a process that is no longer there."""
    return int((_read(f"/proc/{pid}/status").partition(b"VmHWM:")[2].split() or [b"0"])[0]) * 1024


def folder_of(pid: int, uid: int) -> str:
    """Return its working directory; empty if it is no longer there."""
    try:
        with acting_as(uid):  # without CAP_SYS_PTRACE only the same user may look
            return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # it ended meanwhile, or is not ours to look at
        return b""
