"""Sizes that change while an action runs, by us and by others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cpu_nodes import Trajectory, group_of, trajectory_on
from tests.waiting import wait_until
from workers.cpu_node import CpuNode
from workers.docker_engine import connect
from workers.docker_sandbox import LEASE
from workers.grant_unheld import GrantUnheld
from workers.sandbox_lease import SandboxLease

#: A process that keeps saying how many CPUs it sees.
WATCH = """
import os, time
while True:
    with open("seen", "w") as file: print(len(os.sched_getaffinity(0)), file=file)
    time.sleep(0.02)
"""


@pytest.fixture
def two_cores(isolating_node: CpuNode) -> Iterator[Trajectory]:
    if isolating_node.capacity["cpu"] < 2:
        pytest.skip("this machine has one core")
    with trajectory_on(isolating_node) as opened:
        yield opened


def sees(lease: SandboxLease) -> str:
    """Return how many CPUs the watching process sees, as far as it has said."""
    try:
        return lease.read_file("seen").decode().strip()
    except FileNotFoundError:
        return ""


def test_a_running_process_sees_its_cores_come_and_go(two_cores: Trajectory) -> None:
    node = two_cores.node
    with two_cores.lease(1, action="r-1") as lease, ThreadPoolExecutor(1) as pool:
        pool.submit(lease.exec, ["python3", "-c", WATCH])
        wait_until(lambda: sees(lease) == "1", "it runs")
        assert lease.exec(["nproc"]).stdout == "1\n"
        assert node.resize("r-1", 2)
        assert (lease.cpus, lease.max_cpus) == (2, 4)
        wait_until(lambda: sees(lease) == "2", "the running process sees both")
        assert lease.exec(["nproc"]).stdout == "2\n"
        assert node.resize("r-1", 1)
        wait_until(lambda: sees(lease) == "1", "it sees one again")
        assert lease.exec(["nproc"]).stdout == "1\n"
        lease.cancel()
    assert [units for _, units in lease.usage.units_over_time] == [1, 2, 1]
    assert not node.resize("r-1", 2), "it is over"


def test_cores_of_others_are_not_to_be_had(two_cores: Trajectory, isolating_node: CpuNode) -> None:
    rest = isolating_node.capacity["cpu"] - 1
    with trajectory_on(isolating_node) as other, other.lease(rest), two_cores.lease(1, action="r-3") as lease:
        with pytest.raises(GrantUnheld):
            isolating_node.resize("r-3", 2)
        assert lease.exec(["nproc"]).stdout == "1\n"
        with pytest.raises(GrantUnheld, match="refuses action r-4"), other.lease(1, action="r-4"):
            pass


def test_classes_have_cores_apart_and_their_weight(two_cores: Trajectory, isolating_node: CpuNode) -> None:
    with (
        trajectory_on(isolating_node) as other,
        other.lease(1, qos="be") as background,
        two_cores.lease(1) as lease,
    ):
        group = group_of(background)
        weight = int((group.folders["cpu"] / ("cpu.weight" if group.version == 2 else "cpu.shares")).read_text())
        assert weight < 100
        mask = ["python3", "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
        assert background.exec(mask).stdout != lease.exec(mask).stdout


@pytest.mark.docker
def test_somebody_elses_docker_update_is_set_right_and_counted(
    make_node: Callable[..., CpuNode], tmp_path: Path
) -> None:
    node = make_node("docker", tmp_path, "drift")
    engine = connect()
    try:
        with trajectory_on(node) as trajectory, trajectory.lease() as lease:
            group = group_of(lease)
            (container,) = engine.containers.list(filters={"label": f"{LEASE}={lease.sandbox.lease}"})
            container.update(cpu_period=100_000, cpu_quota=30_000)
            wait_until(lambda: group.quota() == 100_000, "the quota is set again", limit=3.0)
            assert node.stats()["drift_total"] == 1
            assert lease.exec(["nproc"]).stdout == "1\n"
    finally:
        engine.close()
        node.stop()
