"""Warm sandboxes, forks, and clean sandboxes without a trajectory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compose.image import BASE_IMAGE
from tangram_tasks.errors import SandboxError
from tests.integration.test_cpu_node.conftest import DOCKER, NodeMaker
from tests.support.cpu_nodes import Trajectory, order, processes_with, trajectory_on
from tests.waiting import wait_until
from workers.cgroups import Cgroup
from workers.cpu_node import CpuNode
from workers.sandbox_policy import SandboxPolicy

SOIL = """
echo secret > /work/a; mkdir -p /work/d/e; chmod 000 /work/d/e /work/d; echo x > /tmp/b; ln -s / /tmp/root
echo y > /dev/shm/c; setsid sleep 86421 >/dev/null 2>&1 & (trap '' TERM; setsid sleep 86421 >/dev/null 2>&1 &)
"""


@pytest.fixture(params=[DOCKER, "bubblewrap"])
def make_here(request: pytest.FixtureRequest, make_node: NodeMaker, tmp_path: Path) -> Iterator[Callable[..., CpuNode]]:
    """Return a maker of a node with a policy."""
    made: list[CpuNode] = []

    def make(policy: SandboxPolicy | None = None) -> CpuNode:
        made.append(make_node(request.param, tmp_path, "pools", policy=policy or SandboxPolicy()))
        return made[-1]

    yield make
    for node in made:
        node.stop()


def test_a_warm_sandbox_is_claimed_and_replaced(make_here: Callable[..., CpuNode]) -> None:
    node = make_here(SandboxPolicy(warm={BASE_IMAGE: 1}, warm_memory_mib=128))
    wait_until(lambda: node.stats()["warm_ready"] == 1, "the pool fills")
    with trajectory_on(node, memory=128) as trajectory:
        assert node.stats()["warm_claims"] == 1
        with trajectory.lease() as lease:
            assert lease.exec(["sh", "-c", "echo $FROM_ORDER; pwd"]).stdout == "1\n/work\n"
        assert node.trajectories == (trajectory.id,)
        wait_until(lambda: node.stats()["warm_ready"] == 1, "the pool is filled again")
        with trajectory_on(node, memory=256):
            assert node.stats()["warm_claims"] == 1, "another size is made to order"


def test_a_fork_is_a_copy_and_apart(make_here: Callable[..., CpuNode]) -> None:
    node = make_here()
    with trajectory_on(node, memory=400) as origin:
        with origin.lease() as lease:
            lease.exec(
                ["sh", "-c", "mkdir -p src/deep; echo code > src/deep/a.py; ln -s src/deep/a.py link; echo t >/tmp/t"]
            )
            lease.exec(
                ["sh", "-c", "chmod 750 src/deep/a.py; head -c 20000000 /dev/urandom > big; : > empty; mkfifo p"]
            )
            sums = lease.exec(["sh", "-c", "md5sum big; stat -c '%a %Y' src/deep/a.py"]).stdout
        node.open(order("fork", memory=400).model_copy(update={"fork_of": origin.id}))
        fork = Trajectory("fork", node)
        with fork.lease() as lease:
            assert lease.exec(["sh", "-c", "md5sum big; stat -c '%a %Y' src/deep/a.py"]).stdout == sums
            assert (
                lease.exec(["sh", "-c", "cat link /tmp/t; stat -c %s empty; ls"]).stdout
                == "code\nt\n0\nbig\nempty\nlink\nsrc\n"
            )
            lease.write_file("hidden_test.py", "def test(): pass")
            lease.exec(["sh", "-c", "echo changed > src/deep/a.py"])
        with origin.lease() as lease:
            assert lease.exec(["sh", "-c", "cat src/deep/a.py; ls"]).stdout == "code\nbig\nempty\nlink\np\nsrc\n"
        node.close("fork")


def test_a_fork_that_does_not_fit_says_so_and_leaves_nothing(make_here: Callable[..., CpuNode]) -> None:
    node = make_here()
    with trajectory_on(node, memory=400) as origin:
        with origin.lease() as lease:
            lease.exec(["sh", "-c", "head -c 100000000 /dev/zero > big"])
        with pytest.raises(SandboxError, match="No space left"):
            node.open(order("small", memory=64).model_copy(update={"fork_of": origin.id}))
        with pytest.raises(SandboxError, match="nobody has no sandbox"):
            node.open(order("orphan").model_copy(update={"fork_of": "nobody"}))
        assert node.stats()["sandboxes"] == 1


def test_nothing_of_a_stateless_action_is_left_for_the_next(make_here: Callable[..., CpuNode]) -> None:
    node = make_here()
    with node.stateless("first", BASE_IMAGE, 128), Trajectory("first", node).lease() as lease:
        used = lease.sandbox.lease
        lease.exec(["bash", "-c", SOIL])
    with node.stateless("second", BASE_IMAGE, 128), Trajectory("second", node).lease() as lease:
        assert lease.sandbox.lease == used
        seen = lease.exec(["sh", "-c", "ls -A /work /tmp /dev/shm; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).stdout
        assert "86421" not in seen
        assert seen.startswith("/dev/shm:\n\n/tmp:\n\n/work:\n")
    assert node.stats()["stateless_reused"] == 1
    assert node.trajectories == ()
    assert not processes_with("86421")


def test_a_stateless_sandbox_that_cannot_be_cleaned_is_replaced(make_here: Callable[..., CpuNode]) -> None:
    node = make_here()
    with node.stateless("first", BASE_IMAGE, 128), Trajectory("first", node).lease() as lease:
        used = lease.sandbox.lease
        script = "import ctypes; assert ctypes.CDLL(None).shmget(0x1234, 4096, 0o1666) >= 0"
        assert lease.exec(["python3", "-c", script]).ok
    with node.stateless("second", BASE_IMAGE, 128), Trajectory("second", node).lease() as lease:
        assert lease.sandbox.lease != used
    assert node.stats()["stateless_replaced"] == 1


def test_parallel_stateless_actions_share_nothing(make_here: Callable[..., CpuNode]) -> None:
    node = make_here()

    def judge(number: int) -> str:
        name = f"judge-{number}"
        with node.stateless(name, BASE_IMAGE, 64), Trajectory(name, node).lease() as lease:
            lease.write_file("n", str(number))
            return lease.exec(["sh", "-c", "ls; cat n"]).stdout

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(judge, range(12))) == [f"n\n{n}" for n in range(12)]
    assert node.stats()["sandboxes"] <= 2, "as many are kept as actions can run at once"


@pytest.mark.docker
def test_an_idle_sandbox_gives_its_page_cache_back(make_node: NodeMaker, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "large").write_bytes(bytes(range(256)) * (40 << 12))
    os.sync()
    drop = ["python3", "-c", f"import os; f = os.open('{data}/large', os.O_RDONLY); os.posix_fadvise(f, 0, 0, 4)"]
    node = make_node("docker", tmp_path, "paused", policy=SandboxPolicy(mount_roots=(tmp_path,), pause_after=0.1))
    try:
        node.open(order("t").model_copy(update={"mounts": {str(data): "/data"}}))
        subprocess.run(drop, check=True)  # or its pages would stay charged to this test's own group
        with Trajectory("t", node).lease() as lease:
            assert lease.exec(["md5sum", "/data/large"]).ok
            control = lease.sandbox.control
            assert isinstance(control, Cgroup)
            assert _cached(control) > 30 << 20
        wait_until(lambda: node.stats()["sandboxes_paused"] >= 1, "housekeeping pauses it", 20)
        assert _cached(control) < 10 << 20
        subprocess.run(drop, check=True)
        with Trajectory("t", node).lease() as lease:
            assert lease.exec(["md5sum", "/data/large"]).ok, "it wakes"
            assert _cached(control) > 30 << 20
        wait_until(lambda: node.stats()["sandboxes_paused"] >= 2, "and is paused again", 20)
        assert _cached(control) < 10 << 20
    finally:
        node.stop()


def _cached(group: Cgroup) -> int:
    rows = dict(line.split() for line in (group.folders["memory"] / "memory.stat").read_text().splitlines())
    return int(rows["cache" if group.version == 1 else "file"])
