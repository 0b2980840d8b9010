"""Who runs in the sandbox, and which request started it."""

from __future__ import annotations

import os
from typing import NamedTuple

TAG = "TANGRAM_EXEC"  # in the environment of whatever a request starts: which request it was


class Process(NamedTuple):
    """One line of the process table; `born` is in clock ticks since boot."""

    pid: int
    parent: int
    born: int
    dead: bool


def look_up(pid: int) -> Process | None:
    """Return the process with this id, if there is one."""
    content = _read(f"/proc/{pid}/stat")
    if not content:
        return None
    fields = content.rpartition(b") ")[2].split()
    return Process(pid, int(fields[1]), int(fields[19]), fields[0] in (b"Z", b"X"))


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


def tag_of(pid: int) -> str:
    """Return the tag of the request that started this process; empty when it hides it."""
    return variable(pid, TAG)


def variable(pid: int, name: str) -> str:
    """Return an environment variable that the process was started with; empty if it has none, or is not ours."""
    environment = b"\0" + _read(f"/proc/{pid}/environ")
    return environment.partition(f"\0{name}=".encode())[2].partition(b"\0")[0].decode(errors="replace")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # it ended meanwhile, or is not ours to look at
        return b""
