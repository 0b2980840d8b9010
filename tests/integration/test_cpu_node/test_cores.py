"""Cores follow the grant, and a sandbox has what its running actions hold together."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cpu_nodes import Trajectory, group_of, trajectory_on
from workers.cgroups import Cgroup
from workers.cpu_node import CpuNode
from workers.docker_sandbox import DockerUpdate

SPIN = """
import json, os, resource, time
end = time.monotonic() + 1.5
child = os.fork()
while time.monotonic() < end: pass
if child == 0: os._exit(0)
os.wait()
used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({"cpus": sorted(os.sched_getaffinity(0)), "cores": used / 1.5}))
"""


def spin(trajectory: Trajectory, units: int) -> tuple[list[int], float]:
    """Return the cores that two spinning processes see, and how many they use."""
    with trajectory.lease(units) as lease:
        result = json.loads(lease.exec(["python3", "-c", SPIN]).stdout)
    return result["cpus"], result["cores"]


def test_two_processes_on_one_unit_use_one_core(isolating_node: CpuNode) -> None:
    with trajectory_on(isolating_node) as trajectory:
        cpus, cores = spin(trajectory, 1)
        assert len(cpus) == 1
        assert cores < 1.25


def test_parallel_actions_hold_their_sum(isolating_node: CpuNode) -> None:
    if isolating_node.capacity["cpu"] < 2:
        pytest.skip("this machine has one core")
    with trajectory_on(isolating_node) as trajectory, trajectory.lease(1), ThreadPoolExecutor(1) as pool:
        cpus, _ = pool.submit(spin, trajectory, 1).result()
        assert len(cpus) == 2


def test_fractions_of_a_core(make_node: Callable[..., CpuNode], tmp_path: Path) -> None:
    node = make_node("bubblewrap", tmp_path, "fractions", cpu_unit=0.25)
    try:
        with trajectory_on(node) as trajectory:
            assert node.capacity["cpu"] >= 4
            _, quarter = spin(trajectory, 1)
            assert quarter < 0.6
            for units, cores in ((1, 1), (4, 1), (5, 2)):
                with trajectory.lease(units) as lease:
                    assert (lease.cpus, lease.max_cpus) == (cores, 1)
                    assert lease.exec(["nproc"]).stdout == f"{cores}\n"
                    assert lease.exec(["nproc"], env={"OMP_NUM_THREADS": "3"}).stdout == "3\n"
    finally:
        node.stop()


def test_the_kernel_has_what_was_written(isolating_node: CpuNode) -> None:
    with trajectory_on(isolating_node) as trajectory:
        with trajectory.lease() as lease:
            group = group_of(lease)
            assert group.quota() == 100_000
            assert lease.usage.resize_s > 0
        assert group.quota() == 1_000


@pytest.mark.docker
def test_the_engine_resizes_where_cgroups_cannot_be_written(
    make_node: Callable[..., CpuNode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cgroup, "writable", lambda _: False)
    node = make_node("docker", tmp_path, "fallback")
    try:
        with trajectory_on(node) as trajectory:
            with trajectory.lease() as lease:
                assert isinstance(lease.sandbox.control, DockerUpdate)
                group = group_of(lease)
                assert group.quota() == 100_000
                assert lease.exec(["nproc"]).stdout == "1\n"
            assert group.quota() == 1_000
    finally:
        node.stop()
