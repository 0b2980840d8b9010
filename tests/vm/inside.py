#!/usr/local/bin/python3
"""The first process of the machine that `tests.vm.boot` makes: checks, says how they went, switches off."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, "/site")

from workers.cgroups import Cgroup, find
from workers.own_cgroup import create_group, join_files, remove_group
from workers.scope_leaf import own_leaf

TOP = Path("/sys/fs/cgroup")
SCOPE = TOP / "system.slice" / "docker-abc.scope"
SESSION = TOP / "user.slice" / "worker.scope"
CONTROLLERS = "+cpu +cpuset +memory +pids"
MIB = 1 << 20
_POWER_OFF = 0x4321FEDC
_libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, place: str) -> None:
    os.makedirs(place, exist_ok=True)  # noqa: PTH103
    if _libc.mount(kind.encode(), place.encode(), kind.encode(), 0, None):
        raise OSError(ctypes.get_errno(), f"mount {kind} on {place}")


def scope(folder: Path) -> None:
    """Make a scope below a slice, as systemd would, with every controller."""
    folder.mkdir(parents=True)
    for parent in (TOP, folder.parent):
        (parent / "cgroup.subtree_control").write_text(CONTROLLERS)


def run_in(files: list[str], body: Callable[[], None]) -> int:
    """Fork a process that joins groups and then does something; return its id."""
    pid = os.fork()
    if pid == 0:
        try:
            for file in files:
                Path(file).write_text(str(os.getpid()))
            body()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def spin() -> None:
    while True:
        pass


def used(pid: int, seconds: float) -> float:
    """Return how many cores a process uses."""

    def ticks() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    first, began = ticks(), time.monotonic()
    time.sleep(seconds)
    return (ticks() - first) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began)


def until(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.05)


def text(file: Path) -> str:
    return file.read_text().strip()


def sizes_in_a_leaf_below_a_scope() -> None:
    scope(SCOPE)
    pid = run_in([str(SCOPE / "cgroup.procs")], spin)
    until(lambda: str(pid) in text(SCOPE / "cgroup.procs"), "it joined")
    group = own_leaf(find(pid, must_contain="abc"))
    leaf = SCOPE / "tangram"
    assert group.version == 2
    assert text(leaf / "cgroup.procs") == str(pid), "its processes are in the leaf"
    assert own_leaf(find(pid, must_contain="abc")) == group, "a leaf is found again"
    group.give(1.0, (1,))
    assert (text(leaf / "cpu.max"), text(leaf / "cpuset.cpus.effective")) == ("100000 100000", "1")
    assert os.sched_getaffinity(pid) == {1}, "a process that runs feels it at once"
    full = used(pid, 4)
    group.give(0.25, (0, 1))
    quarter = used(pid, 4)
    group.idle()
    idle = used(pid, 4)
    print(f"cores used by one process: full {full:.2f}, a quarter {quarter:.2f}, idle {idle:.3f}")
    assert full > 0.8
    assert 0.15 < quarter < 0.35
    assert idle < 0.05
    group.weigh("be")
    assert text(leaf / "cpu.weight") == "1"
    (SCOPE / "cpu.max").write_text("max 100000")
    assert group.reassert() == 0, "what systemd writes to its scope is not ours"
    (leaf / "cpu.max").write_text("max 100000")
    assert group.reassert() == 1
    assert group.quota() == 1000
    (leaf / "cpu.max.burst").write_text("500")
    group.idle()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    until(lambda: not text(leaf / "cgroup.procs"), "the leaf is empty")


def memory_below_a_delegated_scope() -> None:
    scope(SESSION)
    (SESSION / "cgroup.procs").write_text(str(os.getpid()))
    group = create_group("sandbox", memory=96, pids=32)
    folder = group.folders["memory"]
    assert folder == SESSION / "sandbox"
    assert text(SESSION / "tangram-worker" / "cgroup.procs") == str(os.getpid()), "the worker is in a leaf of its own"
    assert (text(folder / "memory.max"), text(folder / "pids.max")) == (str(96 * MIB), "32")
    _page_cache(group)
    _out_of_memory(group)
    pid = run_in(join_files(group), spin)
    until(lambda: str(pid) in text(folder / "cgroup.procs"), "it joined")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a zombie would keep the group busy
    remove_group(group)
    assert not folder.exists()


def _page_cache(group: Cgroup) -> None:
    def read() -> None:
        while disk.read(MIB):
            pass

    with Path("/dev/nvme0n1").open("rb") as disk:  # its last closing empties its cache
        assert os.waitpid(run_in(join_files(group), read), 0)[1] == 0
        current = group.folders["memory"] / "memory.current"
        before = int(text(current))
        group.reclaim(lambda: True)
        after = int(text(current))
    print(f"memory.reclaim: {before / MIB:.1f} -> {after / MIB:.1f} MiB")
    assert before > 40 * MIB
    assert after < before / 4


def _out_of_memory(group: Cgroup) -> None:
    def hog() -> None:
        held = [bytes(range(256)) * (MIB >> 8) for _ in range(200)]
        print(len(held))

    status = os.waitpid(run_in(join_files(group), hog), 0)[1]
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert group.oom_kills() == 1


def main() -> None:
    for kind, place in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("cgroup2", str(TOP))):
        mount(kind, place)
    print(f"kernel {os.uname().release}, controllers: {text(TOP / 'cgroup.controllers')}")
    for check in (sizes_in_a_leaf_below_a_scope, memory_below_a_delegated_scope):
        check()
        print(f"passed: {check.__name__}")
    print("ALL CHECKS PASSED")


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os.sync()
    _libc.reboot(_POWER_OFF)
