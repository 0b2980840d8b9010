"""Control groups of version 2 under both drivers, on a hierarchy that refuses what the kernel refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tangram_tasks.errors import SandboxError
from tests.support.fake_cgroup2 import FakeCgroup2
from workers.cgroups import find
from workers.own_cgroup import create_group, join_files, remove_group
from workers.scope_leaf import own_leaf

SCOPE = "system.slice/docker-abc.scope"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCgroup2:
    fake = FakeCgroup2(tmp_path)
    fake.install(monkeypatch)
    return fake


def text(folder: Path, name: str) -> str:
    return (folder / name).read_text().strip()


def test_under_systemd_sizes_go_into_a_leaf_of_our_own(kernel: FakeCgroup2) -> None:
    scope = kernel.group(SCOPE, processes=("42", "43"))
    group = own_leaf(find(42, root=kernel.root, must_contain="abc"))
    leaf = scope / "tangram"
    assert text(leaf, "cgroup.procs").split() == ["42", "43"]
    assert text(scope, "cgroup.procs") == ""
    group.give(2.0, (0, 3))
    group.weigh("be")
    assert (text(leaf, "cpu.max"), text(leaf, "cpuset.cpus"), text(leaf, "cpu.weight")) == ("200000 100000", "0,3", "1")
    assert text(scope, "cpu.max") == "max 100000"
    assert group.quota() == 200_000
    group.idle()
    assert text(leaf, "cpu.max") == "1000 100000"
    assert group.folders["memory"] == scope, "the container's own limits stay where Docker has put them"


def test_systemd_resets_its_scope_and_not_our_leaf(kernel: FakeCgroup2) -> None:
    scope = kernel.group(SCOPE, processes=("42",))
    group = own_leaf(find(42, root=kernel.root))
    group.give(1.0, (2,))
    (scope / "cpu.max").write_text("max 100000")
    (scope / "cpuset.cpus").write_text("0-7")
    assert group.reassert() == 0
    assert text(scope / "tangram", "cpu.max") == "100000 100000"


def test_a_leaf_is_found_again(kernel: FakeCgroup2) -> None:
    kernel.group(SCOPE, processes=("42",))
    first = own_leaf(find(42, root=kernel.root))
    again = own_leaf(find(42, root=kernel.root, must_contain="abc"))
    assert again == first
    assert own_leaf(first) == first


def test_processes_forked_meanwhile_are_moved_too(kernel: FakeCgroup2) -> None:
    scope = kernel.group(SCOPE, processes=("42",))
    kernel.newborn = ["100", "101"]
    own_leaf(find(42, root=kernel.root))
    assert text(scope / "tangram", "cgroup.procs").split() == ["42", "100", "101"]


def test_a_scope_that_never_empties_is_given_up(kernel: FakeCgroup2) -> None:
    kernel.group(SCOPE, processes=("42",))
    kernel.newborn = [str(pid) for pid in range(100, 200)]
    with pytest.raises(SandboxError, match=r"below .*docker-abc.scope: processes kept appearing"):
        own_leaf(find(42, root=kernel.root))


def test_a_controller_that_is_not_ours_is_told(kernel: FakeCgroup2) -> None:
    scope = kernel.group(SCOPE, processes=("42",))
    (scope / "cgroup.controllers").write_text("memory pids")
    with pytest.raises(SandboxError, match="No such file"):
        own_leaf(find(42, root=kernel.root))


def test_the_cgroupfs_driver_needs_no_leaf_but_a_watch(kernel: FakeCgroup2) -> None:
    folder = kernel.group("docker/abc", processes=("42",))
    group = own_leaf(find(42, root=kernel.root, must_contain="abc"))
    group.give(1.0, (0, 1, 2))
    assert (folder / "tangram").exists() is False
    (folder / "cpuset.cpus").write_text("0-2")  # as the kernel prints it
    assert group.reassert() == 0
    (folder / "cpu.max").write_text("max 100000")
    (folder / "cpuset.cpus").write_text("0-7")
    assert group.reassert() == 2
    assert (text(folder, "cpu.max"), text(folder, "cpuset.cpus")) == ("100000 100000", "0,1,2")
    assert group.reassert() == 0


def test_a_group_that_is_gone_has_not_drifted(kernel: FakeCgroup2) -> None:
    folder = kernel.group("docker/abc", processes=("42",))
    group = find(42, root=kernel.root)
    group.give(1.0, ())
    (folder / "cpu.max").unlink()
    assert group.reassert() == 0
    with pytest.raises(SandboxError, match="cannot read"):
        group.quota()


def test_a_burst_that_somebody_left_is_told(kernel: FakeCgroup2) -> None:
    folder = kernel.group("docker/abc", processes=("42",))
    (folder / "cpu.max.burst").write_text("50000")
    with pytest.raises(SandboxError, match=r"cannot write '1000 100000' to .*cpu.max: Invalid argument"):
        find(42, root=kernel.root).idle()


@pytest.mark.parametrize(("held", "pinned"), [(700 << 20, 20 << 20), (1 << 20, 0), (30 << 20, 30 << 20), (0, 0)])
def test_memory_is_taken_back_down_to_what_is_in_use(kernel: FakeCgroup2, held: int, pinned: int) -> None:
    folder = kernel.group(SCOPE, processes=("42",))
    group = own_leaf(find(42, root=kernel.root))
    (folder / "memory.current").write_text(f"{held}\n")
    kernel.pinned = pinned
    group.reclaim(lambda: True)
    assert int(text(folder, "memory.current")) == pinned
    group.reclaim(lambda: True)
    assert int(text(folder, "memory.current")) == pinned


def test_taking_memory_back_stops_for_an_action(kernel: FakeCgroup2) -> None:
    folder = kernel.group(SCOPE, processes=("42",))
    (folder / "memory.current").write_text(str(1 << 30))
    answers = iter([True, False])
    find(42, root=kernel.root).reclaim(lambda: next(answers))
    assert int(text(folder, "memory.current")) == 768 << 20


def test_a_kernel_without_reclaim_is_left_alone(kernel: FakeCgroup2) -> None:
    folder = kernel.group(SCOPE, processes=("42",))
    (folder / "memory.reclaim").unlink()
    (folder / "memory.current").write_text("4096")
    find(42, root=kernel.root).reclaim(lambda: True)
    assert text(folder, "memory.current") == "4096"


def test_groups_of_our_own_below_the_worker(kernel: FakeCgroup2) -> None:
    home = kernel.group("user.slice/worker.scope", processes=("7",))
    (kernel.root / "proc/self/cgroup").write_text("0::/user.slice/worker.scope\n")
    made = create_group("tangram-x", memory=64, pids=10, root=kernel.root)
    folder = home / "tangram-x"
    assert text(home / "tangram-worker", "cgroup.procs") == "7"
    assert (text(folder, "memory.max"), text(folder, "memory.swap.max"), text(folder, "pids.max")) == (
        str(64 << 20),
        "0",
        "10",
    )
    assert join_files(made) == [str(folder / "cgroup.procs")]
    made.give(0.5, ())
    assert text(folder, "cpu.max") == "50000 100000"
    remove_group(made)
    assert not folder.exists()
