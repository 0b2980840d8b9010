"""A sandbox's control groups: finding them, and sizing them by plain writes to the kernel's files.

Writing costs 0.03 ms where `docker update` costs 17. Versions 1 and 2 of the interface differ in names only:
kernel documentation, admin-guide/cgroup-v1 and admin-guide/cgroup-v2, scheduler/sched-bwc.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tangram_tasks.action import Qos
from tangram_tasks.errors import SandboxError
from workers import group_files
from workers.topology import parse_cpus

PERIOD_US = 100_000
IDLE_US = 1_000  # the least quota the kernel takes
_V2 = "cgroup2"
_RECLAIM_STEP = 256 << 20  # bytes
#: What a group's CPU time counts for beside others on the same core: the kernel's default, and hardly anything.
SHARES: Mapping[Qos, int] = {"ls": 1024, "be": 10}  # version 1
_WEIGHT: Mapping[Qos, int] = {"ls": 100, "be": 1}  # version 2


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted hierarchy.

    Args:
        root: the group that is mounted.
        point: where.
        version: 1 or 2.
        controllers: those of a version 1 hierarchy.
    """

    root: str
    point: str
    version: int
    controllers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The folders that hold a group's files, by controller: `cpu`, `cpuset`, `memory`, `pids`.

    Args:
        version: 1 or 2; a hybrid host counts as 1.
        folders: controller to folder; in version 2 all are the same, or `cpu` and `cpuset` lie below the others.
        written: what we last wrote, by file.
    """

    version: int
    folders: Mapping[str, Path]
    written: dict[Path, str] = field(default_factory=dict, compare=False)

    def writable(self) -> bool:
        """Whether the CPU time of the group can be set by us."""
        name = "cpu.max" if self.version == 2 else "cpu.cfs_quota_us"
        return os.access(self.folders["cpu"] / name, os.W_OK)

    def give(self, cores: float, cpus: Sequence[int]) -> None:
        """Give CPU time of so many cores; and just these cores, unless empty. Never sets burst.

        Raises:
            SandboxError: the group is gone.
        """
        self._pin(cpus)
        self._set_quota(max(IDLE_US, round(cores * PERIOD_US)))

    def idle(self) -> None:
        """Leave 1 % of one core, so that servers and heartbeats inside go on. Raises SandboxError."""
        self._set_quota(IDLE_US)

    def reclaim(self, go_on: Callable[[], bool]) -> None:
        """Take back what memory the kernel can: page cache, above all. Does nothing where it cannot.

        Version 2 does so in steps, since gigabytes take seconds and an action may start meanwhile.
        """
        folder = self.folders["memory"]
        try:
            if self.version == 1:
                write(folder / "memory.force_empty", "0")
                return
            for _ in range(1 + int((folder / "memory.current").read_text()) // _RECLAIM_STEP):
                if not go_on():
                    return
                left = int((folder / "memory.current").read_text())
                write(folder / "memory.reclaim", str(min(left, _RECLAIM_STEP)))
        except (OSError, SandboxError):  # the kernel is too old, or there is no more to be had
            return

    def weigh(self, qos: Qos) -> None:
        """Set what the group counts for beside others that run on the same cores. Raises SandboxError."""
        if self.version == 2:
            self._write("cpu", "cpu.weight", str(_WEIGHT[qos]))
        else:
            self._write("cpu", "cpu.shares", str(SHARES[qos]))

    def reassert(self) -> int:
        """Write again what somebody else has changed since (systemd, `docker update`).

        Returns:
            How many files said something else than what we wrote. 0 when the group is gone, too.

        Raises:
            SandboxError: it went while it was written.
        """
        drifted = [file for file, value in self.written.items() if _differs(file, value)]
        for file in drifted:
            write(file, self.written[file])
        return len(drifted)

    def quota(self) -> int:
        """CPU time in microseconds per 100 ms; -1 if unlimited. Raises SandboxError if the group is gone."""
        name = "cpu.max" if self.version == 2 else "cpu.cfs_quota_us"
        try:
            found = (self.folders["cpu"] / name).read_text().split()[0]
        except OSError as error:
            raise SandboxError(f"cannot read {self.folders['cpu'] / name}: {error.strerror}") from None
        return -1 if found == "max" else int(found)

    def oom_kills(self) -> int:
        """How many processes the kernel has killed in it for lack of memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        try:
            lines = (self.folders["memory"] / name).read_text().splitlines()
        except OSError:  # the sandbox was removed meanwhile; its command says so
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)

    def _set_quota(self, quota: int) -> None:
        if self.version == 2:
            self._write("cpu", "cpu.max", f"{quota} {PERIOD_US}")
        else:
            self.written.setdefault(self.folders["cpu"] / "cpu.cfs_period_us", str(PERIOD_US))  # as the kernel made it
            self._write("cpu", "cpu.cfs_quota_us", str(quota))

    def _pin(self, cpus: Sequence[int]) -> None:
        if cpus and "cpuset" in self.folders:
            self._write("cpuset", "cpuset.cpus", ",".join(map(str, cpus)))

    def _write(self, controller: str, name: str, value: str) -> None:
        file = self.folders[controller] / name
        write(file, value)
        self.written[file] = value


def write(file: Path, value: str) -> None:
    """Write a kernel file in one call. Raises SandboxError naming file and value."""
    try:
        group_files.put(file, value)
    except OSError as error:
        raise SandboxError(f"cannot write {value!r} to {file}: {error.strerror}; the sandbox may be gone") from None


def _differs(file: Path, value: str) -> bool:
    """Whether a file says something else; one that is gone does not."""
    try:
        found = file.read_text().strip()
    except OSError:
        return False
    return parse_cpus(found) != parse_cpus(value) if file.name == "cpuset.cpus" else found != value


def find(pid: int | str, *, root: Path = Path("/"), must_contain: str = "") -> Cgroup:
    """Find the group of a process.

    Args:
        pid: its id, or "self".
        root: where `proc` and the hierarchies are, for tests.
        must_contain: part of the group's path, a guard against a reused process id.

    Raises:
        SandboxError: there is no such process, or it is in no group of that name.
    """
    try:
        lines = (root / "proc" / str(pid) / "cgroup").read_text().splitlines()
    except OSError as error:
        raise SandboxError(f"process {pid} is gone: {error.strerror}") from None
    groups = {name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")}
    folders: dict[str, Path] = {}
    version = 1
    for mount in mounts(root):
        if mount.version == 1:
            for name in mount.controllers & {"cpu", "cpuset", "memory", "pids"}:
                folders[name] = _folder(root, mount, groups[name])
    if "cpu" not in folders:  # no version 1 hierarchy: the unified one has it
        version = 2
        unified = next((mount for mount in mounts(root) if mount.version == 2), None)
        if unified is None:
            raise SandboxError("no control groups are mounted: mount cgroup2 on /sys/fs/cgroup")
        folders = dict.fromkeys(("cpu", "cpuset", "memory", "pids"), _folder(root, unified, groups[""]))
    if must_contain not in str(folders["cpu"]):
        raise SandboxError(f"process {pid} is in {folders['cpu']}, not in the group of {must_contain}")
    return Cgroup(version, folders)


def mounts(root: Path = Path("/")) -> list[Mount]:
    """Return the mounted hierarchies, as /proc/self/mountinfo (proc(5)) lists them."""
    found = []
    for line in (root / "proc" / "self" / "mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", _V2):
            fields = left.split(" ")
            controllers = frozenset(options.split(",")) if kind == "cgroup" else frozenset()
            found.append(Mount(fields[3], fields[4], 2 if kind == _V2 else 1, controllers))
    return found


def _folder(root: Path, mount: Mount, group: str) -> Path:
    inside = group.removeprefix(mount.root) if mount.root != "/" else group
    return root / mount.point.lstrip("/") / inside.lstrip("/")
