"""Finding and writing control groups, on fake trees of both versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tangram_tasks.errors import SandboxError
from workers.cgroups import find
from workers.own_cgroup import create_group, group_named, join_files, remove_group

V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset
35 31 0:32 /outer /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V1_GROUPS = "9:name=systemd:/\n8:pids:{0}\n4:memory:/outer{0}\n3:cpuset:{0}\n1:cpu,cpuacct:{0}\n0::/\n"
V2_MOUNTS = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def fake_host(root: Path, mounts: str, groups: Mapping[str, str]) -> None:
    """Write /proc as a host shows it: process id -> its `cgroup` file."""
    for pid, lines in groups.items():
        (root / "proc" / pid).mkdir(parents=True)
        (root / "proc" / pid / "cgroup").write_text(lines)
    (root / "proc" / "self" / "mountinfo").write_text(mounts)


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """A hybrid host, whose memory hierarchy is mounted from a group of its own."""
    fake_host(tmp_path, V1_MOUNTS, {"42": V1_GROUPS.format("/docker/abc"), "self": V1_GROUPS.format("")})
    for point, files in {
        "cpu,cpuacct": {"cpu.cfs_quota_us": "-1"},
        "cpuset": {"cpuset.cpus": "0-3", "cpuset.mems": "0"},
        "memory": {"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"},
        "pids": {},
    }.items():
        for folder in (tmp_path / "sys/fs/cgroup" / point, tmp_path / "sys/fs/cgroup" / point / "docker/abc"):
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                (folder / name).write_text(content)
    return tmp_path


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    """A host with the unified hierarchy and the systemd driver."""
    scope = "system.slice/docker-abc.scope"
    fake_host(tmp_path, V2_MOUNTS, {"42": f"0::/{scope}\n", "self": "0::/user.slice/worker.scope\n"})
    folder = tmp_path / "sys/fs/cgroup" / scope
    folder.mkdir(parents=True)
    (folder / "cpu.max").write_text("max 100000")
    (folder / "cpuset.cpus").write_text("")
    (folder / "memory.events").write_text("low 0\noom 2\noom_kill 2\noom_group_kill 0\n")
    return tmp_path


def test_v1_sizes(v1: Path) -> None:
    group = find(42, root=v1, must_contain="abc")
    cpu, cpuset = v1 / "sys/fs/cgroup/cpu,cpuacct/docker/abc", v1 / "sys/fs/cgroup/cpuset/docker/abc"
    assert group.version == 1
    assert group.writable()
    group.give(2.0, (1, 3))
    assert (cpu / "cpu.cfs_quota_us").read_text() == "200000"
    assert (cpuset / "cpuset.cpus").read_text().startswith("1,3")
    group.idle()
    assert (cpu / "cpu.cfs_quota_us").read_text().startswith("1000")
    assert not (cpu / "cpu.cfs_burst_us").exists()
    assert group.oom_kills() == 3


def test_v2_sizes(v2: Path) -> None:
    group = find(42, root=v2, must_contain="abc")
    folder = v2 / "sys/fs/cgroup/system.slice/docker-abc.scope"
    assert group.version == 2
    group.give(0.25, ())
    assert (folder / "cpu.max").read_text().startswith("25000 100000")
    assert (folder / "cpuset.cpus").read_text() == ""
    group.give(1.0, (2,))
    assert (folder / "cpuset.cpus").read_text() == "2"
    group.idle()
    assert (folder / "cpu.max").read_text().startswith("1000 100000")
    assert group.oom_kills() == 2


def test_less_than_the_kernels_least_quota_becomes_the_least(v2: Path) -> None:
    group = find(42, root=v2)
    group.give(0.001, ())
    assert (group.folders["cpu"] / "cpu.max").read_text().startswith("1000 100000")


def test_wrong_and_lost_processes_are_refused(v1: Path) -> None:
    with pytest.raises(SandboxError, match="not in the group of other-container"):
        find(42, root=v1, must_contain="other-container")
    with pytest.raises(SandboxError, match="process 43 is gone"):
        find(43, root=v1)


def test_a_removed_group_is_told(v1: Path) -> None:
    group = find(42, root=v1)
    (v1 / "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us").unlink()
    with pytest.raises(SandboxError, match=r"cannot write '1000' to .*cpu.cfs_quota_us.*may be gone"):
        group.idle()
    assert not group.writable()


def test_no_hierarchy_at_all(tmp_path: Path) -> None:
    fake_host(tmp_path, "1 0 0:1 / / rw - ext4 /dev/vda rw\n", {"self": "0::/\n"})
    with pytest.raises(SandboxError, match="no control groups are mounted"):
        find("self", root=tmp_path)


def test_own_group_is_looked_up_below_the_workers(v1: Path) -> None:
    group = group_named("tangram-x", v1)
    assert group.folders["memory"] == v1 / "sys/fs/cgroup/memory/tangram-x"
    assert join_files(group) == sorted(str(folder / "cgroup.procs") for folder in group.folders.values())
    remove_group(group)  # not there: nothing to do


def test_own_group_that_may_not_be_made_leaves_nothing(v1: Path) -> None:
    (v1 / "sys/fs/cgroup/pids/tangram-x").write_text("in the way")
    with pytest.raises(SandboxError, match=r"as root, or under `systemd-run"):
        create_group("tangram-x", memory=64, pids=10, root=v1)
    assert [path for path in (v1 / "sys/fs/cgroup").glob("*/tangram-x") if path.is_dir()] == []


def test_own_v2_group_moves_the_worker_into_a_leaf_first(v2: Path) -> None:
    parent = v2 / "sys/fs/cgroup/user.slice/worker.scope"
    parent.mkdir(parents=True)
    (parent / "cgroup.subtree_control").write_text("memory pids\n")
    (parent / "cgroup.procs").write_text("42\n")
    with pytest.raises(SandboxError, match="cannot write"):  # a fake kernel makes no files in a new group
        create_group("tangram-x", memory=64, pids=10, root=v2)
    assert (parent / "tangram-worker/cgroup.procs").read_text() == "42"
    assert (parent / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory +pids"
