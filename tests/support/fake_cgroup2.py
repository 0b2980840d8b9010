"""A cgroup version 2 hierarchy in a folder, which refuses what the kernel refuses.

Files, first values and refusals follow the kernel's documentation, admin-guide/cgroup-v2.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from workers import group_files

MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
CORE = {"cgroup.procs": "", "cgroup.subtree_control": "", "cgroup.controllers": ""}
FILES = {
    "cpu": {"cpu.max": "max 100000", "cpu.max.burst": "0", "cpu.weight": "100"},
    "cpuset": {"cpuset.cpus": "", "cpuset.mems": ""},
    "memory": {"memory.max": "max", "memory.swap.max": "max", "memory.events": "low 0\noom 0\noom_kill 0\n"}
    | {"memory.current": "0", "memory.reclaim": ""},
    "pids": {"pids.max": "max"},
}


@dataclass
class FakeCgroup2:
    """The hierarchy.

    Args:
        root: where `proc` and `sys` are.
        newborn: processes that appear in a group, each when somebody next moves one out of it: a race with fork.
        pinned: bytes of every group that the kernel cannot take back.
    """

    root: Path
    newborn: list[str] = field(default_factory=list)
    pinned: int = 0

    def __post_init__(self) -> None:
        self.top = self.root / "sys/fs/cgroup"
        self.top.mkdir(parents=True)
        (self.root / "proc/self").mkdir(parents=True)
        (self.root / "proc/self/mountinfo").write_text(MOUNT)
        self._fill(self.top, set(FILES), {"cpuset", "cpu", "memory", "pids"})

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the kernel's place."""
        for name in ("put", "move", "make", "remove"):
            monkeypatch.setattr(group_files, name, getattr(self, name))

    def group(self, path: str, *, processes: tuple[str, ...] = ()) -> Path:
        """Make a group with its parents, all of which let their groups have limits, and put processes into it."""
        folder = self.top
        for part in Path(path).parts:
            (folder / "cgroup.subtree_control").write_text("cpuset cpu memory pids")
            folder = folder / part
            if not folder.exists():
                self.make(folder)
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in processes))
        for pid in processes:
            (self.root / "proc" / pid).mkdir(parents=True, exist_ok=True)
            (self.root / "proc" / pid / "cgroup").write_text(f"0::/{path}\n")
        return folder

    # -- what the kernel does

    def make(self, folder: Path, *, exist_ok: bool = False) -> None:
        if folder.exists() and exist_ok:
            return
        enabled = set((folder.parent / "cgroup.subtree_control").read_text().split())
        folder.mkdir()
        self._fill(folder, enabled, enabled)

    def remove(self, folder: Path) -> None:
        if (folder / "cgroup.procs").read_text() or any(path.is_dir() for path in folder.iterdir()):
            raise _refusal(errno.EBUSY)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()

    def move(self, pid: str, folder: Path) -> None:
        if (folder / "cgroup.subtree_control").read_text():
            raise _refusal(errno.EBUSY)
        process = self.root / "proc" / pid
        if not process.exists():
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        home = self.top / (process / "cgroup").read_text().strip().removeprefix("0::/")
        left = [one for one in (home / "cgroup.procs").read_text().split() if one != pid]
        if self.newborn:
            left.append(self.newborn.pop(0))
            (self.root / "proc" / left[-1]).mkdir()
            (self.root / "proc" / left[-1] / "cgroup").write_text((process / "cgroup").read_text())
        (home / "cgroup.procs").write_text("".join(f"{one}\n" for one in left))
        with (folder / "cgroup.procs").open("a") as file:
            file.write(f"{pid}\n")
        (process / "cgroup").write_text(f"0::/{folder.relative_to(self.top)}\n")

    def put(self, file: Path, value: str) -> None:
        if not file.exists():
            raise _refusal(errno.ENOENT)
        if file.name == "cgroup.subtree_control":
            self._enable(file.parent, {word.removeprefix("+") for word in value.split()})
        elif file.name == "memory.reclaim":
            self._reclaim(file.parent / "memory.current", int(value))
        else:
            _check(file, value)
            file.write_text(value)

    def _reclaim(self, current: Path, wanted: int) -> None:
        held = int(current.read_text())
        taken = max(0, min(wanted, held - self.pinned))
        current.write_text(str(held - taken))
        if taken < wanted:
            raise _refusal(errno.EAGAIN)

    def _enable(self, folder: Path, wanted: set[str]) -> None:
        if not wanted <= set((folder / "cgroup.controllers").read_text().split()):
            raise _refusal(errno.ENOENT)
        if (folder / "cgroup.procs").read_text() and folder != self.top:
            raise _refusal(errno.EBUSY)
        enabled = set((folder / "cgroup.subtree_control").read_text().split()) | wanted
        (folder / "cgroup.subtree_control").write_text(" ".join(sorted(enabled)))
        for below in [path for path in folder.iterdir() if path.is_dir()]:
            self._fill(below, enabled, enabled)

    def _fill(self, folder: Path, files: set[str], controllers: set[str]) -> None:
        wanted = {**CORE, **{name: text for kind in files for name, text in FILES[kind].items()}}
        for name, text in wanted.items():
            if not (folder / name).exists():
                (folder / name).write_text(text)
        (folder / "cgroup.controllers").write_text(" ".join(sorted(controllers)))


def _check(file: Path, value: str) -> None:
    if file.name == "cpu.max":
        quota, period = value.split()
        if not 1000 <= int(period) <= 1_000_000 or (quota != "max" and int(quota) < 1000):
            raise _refusal(errno.EINVAL)
        if quota != "max" and int((file.parent / "cpu.max.burst").read_text()) > int(quota):
            raise _refusal(errno.EINVAL)
    if file.name == "cpu.weight" and not 1 <= int(value) <= 10_000:
        raise _refusal(errno.ERANGE)


def _refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))
