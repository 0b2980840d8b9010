"""What an operator may say, and what trajectories may mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.errors import ConfigurationError, InvalidAction, SandboxError
from tests.support.trajectories import trajectory
from workers.sandbox_policy import SandboxPolicy


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "set").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (tmp_path / "root" / "way_out").symlink_to(tmp_path / "private")
    return tmp_path / "root"


def test_what_is_below_a_root_may_be_mounted(root: Path) -> None:
    policy = SandboxPolicy(mount_roots=(root,))
    assert policy.resolve({f"{root}/set": "/data"}) == {f"{root}/set": "/data"}
    assert policy.resolve({}) == {}


@pytest.mark.parametrize("source", ["private", "root/way_out", "root/nothing", "root/../private", "rootless"])
def test_nothing_else_may(root: Path, source: str) -> None:
    with pytest.raises(SandboxError, match="below one of its mount_roots"):
        SandboxPolicy(mount_roots=(root,)).resolve({f"{root.parent}/{source}": "/data"})
    with pytest.raises(SandboxError, match="none are"):
        SandboxPolicy().resolve({f"{root}/set": "/data"})


@pytest.mark.parametrize("target", ["/work", "/work/data", "/proc", "/run", "/run/tangram/x", "/tmp", "/dev/shm"])
def test_the_sandboxs_own_places_stay_its_own(root: Path, target: str) -> None:
    with pytest.raises(SandboxError, match=f"nothing can be mounted on {target}"):
        SandboxPolicy(mount_roots=(root,)).resolve({str(root): target})


def test_bad_policies_fail_at_the_start(root: Path) -> None:
    with pytest.raises(ConfigurationError, match="warm: -1 sandboxes of i"):
        SandboxPolicy(warm={"i": -1})
    with pytest.raises(ConfigurationError, match="warm_memory_mib"):
        SandboxPolicy(warm_memory_mib=8)
    with pytest.raises(ConfigurationError, match="nowhere is no folder"):
        SandboxPolicy(mount_roots=(root / "nowhere",))
    assert SandboxPolicy(warm={"i": 2, "j": 1}, warm_memory_mib=100).reserved_mib == 300
    sizes = SandboxPolicy(warm={"i": {100: 2, 400: 1}, "j": 1}, warm_memory_mib=50)
    assert sizes.targets == {("i", 100): 2, ("i", 400): 1, ("j", 50): 1}
    assert sizes.reserved_mib == 650
    with pytest.raises(ConfigurationError, match="needs 32 MiB, not 3"):
        SandboxPolicy(warm={"i": {3: 1}})


def ordered(**options: object) -> OpenTrajectory:
    return trajectory(**options)._order


def test_a_trajectory_says_what_it_wants() -> None:
    order = ordered(network="lab_net.1", mounts={"/data/set": "/data"}, user=4000)
    assert (order.network, order.mounts, order.user) == ("lab_net.1", {"/data/set": "/data"}, 4000)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"network": "host"}, "no sandbox gets the host's network"),
        ({"network": "container:abc"}, "is no network"),
        ({"network": ""}, "is no network"),
        ({"user": 0}, "greater than 0"),
        ({"mounts": {"relative": "/data"}}, "cannot be mounted"),
        ({"mounts": {"/data/../etc": "/data"}}, "cannot be mounted"),
        ({"mounts": {"/data": "/x:rw"}}, "cannot be mounted"),
        ({"mounts": {"/": "/data"}}, "cannot be mounted"),
        ({"privileged": True}, "privileged would open the sandbox to its host"),
        ({"cap_add": ["SYS_ADMIN"]}, "cap_add would open the sandbox"),
        ({"devices": ["/dev/kvm"]}, "devices would open"),
        ({"pid_mode": "host"}, "pid_mode would open"),
        ({"colour": "red"}, "a trajectory has no option 'colour'"),
    ],
)
def test_what_would_open_it_is_refused_at_the_call(options: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidAction, match=why):
        trajectory(**options)


def test_a_fork_is_like_its_trajectory() -> None:
    origin = trajectory(memory="300MiB", user=7, env={"A": "1"})
    fork = origin.fork(memory="400MiB")._order
    assert (fork.fork_of, fork.memory, fork.user, fork.env) == (origin.id, 400, 7, {"A": "1"})
    with pytest.raises(InvalidAction, match="leave image out"):
        origin.fork(image="other")
