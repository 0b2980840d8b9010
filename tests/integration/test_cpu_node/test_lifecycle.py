"""Making, sweeping and stopping, also after the worst."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tangram_tasks.errors import ConfigurationError, SandboxError
from tests.support.cpu_nodes import order, processes_with, trajectory_on
from tests.waiting import wait_until
from workers.cpu_node import CpuNode
from workers.docker_engine import connect
from workers.docker_sandbox import LEASE

BACKENDS = [pytest.param("docker", marks=pytest.mark.docker), "bubblewrap", "local"]
Maker = Callable[..., CpuNode]
#: The docker package forgets to close its socket when no engine answers.
no_engine = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

CRASH = """
import sys, time
from pathlib import Path
from tests.support.cpu_nodes import trajectory_on
from workers.cpu_node import CpuNode
node = CpuNode(node=sys.argv[2], owner="tests", state_dir=Path(sys.argv[3]), backend=sys.argv[1], unsafe_local=True)
with trajectory_on(node) as trajectory, trajectory.lease() as lease:
    lease.exec(["bash", "-c", "setsid bash -c 'sleep 31337; true' >/dev/null 2>&1 & sleep 0.1"])
    print(lease.sandbox.lease, flush=True)
    lease.exec(["sleep", "31337"])
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_sweep_after_a_killed_worker(make_node: Maker, backend: str, tmp_path: Path) -> None:
    make_node(backend, tmp_path, "crashed").stop()
    crashing = subprocess.Popen(
        [sys.executable, "-c", CRASH, backend, f"crashed-{backend}", str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert crashing.stdout is not None
    lease = crashing.stdout.readline().strip()
    wait_until(lambda: len(processes_with("31337")) >= 2, "both sleeps run")
    crashing.send_signal(signal.SIGKILL)
    crashing.communicate(timeout=20)

    node = make_node(backend, tmp_path, "crashed")
    try:
        with trajectory_on(node) as survivor:
            assert node.sweep() == [lease]
            assert node.sweep() == []
            with survivor.lease() as running:
                assert running.exec(["true"]).ok
        wait_until(lambda: not processes_with("31337"), "what the dead worker started is gone")
        assert left_in(tmp_path) == []
    finally:
        node.stop()


@pytest.mark.parametrize("backend", BACKENDS)
def test_stop_leaves_nothing(make_node: Maker, backend: str, tmp_path: Path) -> None:
    node = make_node(backend, tmp_path, "stopping")
    for name in ("s-1", "s-2"):
        node.open(order(name))
        with node.lease(trajectory=name, action=name, units=1, max_units=1, deadline=float("inf")) as lease:
            lease.exec(["bash", "-c", "setsid sleep 55555 >/dev/null 2>&1 &"])
    assert node.stats()["sandboxes"] == 2
    node.stop()
    node.stop()
    wait_until(lambda: not processes_with("55555"), "all sandboxes are gone")
    assert left_in(tmp_path) == []
    with pytest.raises(SandboxError, match="has stopped"):
        node.open(order("late"))


def left_in(state_dir: Path) -> list[str]:
    """Return what sandboxes left in a state folder, in the engine and among the control groups."""
    folders = [str(path) for path in state_dir.glob("sandboxes/*/sandbox-*")]
    leases = {Path(folder).name for folder in folders}
    groups = [str(path) for lease in leases for path in Path("/sys/fs/cgroup").glob(f"**/tangram-{lease}")]
    return folders + groups


def test_opening_is_idempotent_also_at_once(node: CpuNode) -> None:
    opened = node.stats()["sandboxes_opened"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: node.open(order("same")), range(4)))
    assert node.stats()["sandboxes_opened"] == opened + 1
    node.close("same")


def test_too_little_memory_is_refused(node: CpuNode) -> None:
    with pytest.raises(SandboxError, match="tiny asks for 8 MiB: a sandbox needs 32"):
        node.open(order("tiny", memory=8))


def test_a_second_process_of_the_same_name_is_refused(make_node: Maker, tmp_path: Path) -> None:
    first = make_node("local", tmp_path, "twin")
    try:
        with pytest.raises(ConfigurationError, match="already runs"):
            make_node("local", tmp_path, "twin")
    finally:
        first.stop()


@pytest.mark.docker
def test_missing_image_says_how_to_get_it(make_node: Maker, tmp_path: Path) -> None:
    node = make_node("docker", tmp_path, "image")
    try:
        with pytest.raises(SandboxError, match=r"no image 'nope:1'.*docker pull nope:1.*python -m compose.image"):
            node.open(order("t", image="nope:1"))
        assert left_in(tmp_path) == []
        assert node.stats()["sandboxes"] == 0
        node.open(order("t"))
    finally:
        node.stop()


@pytest.mark.docker
def test_containers_carry_their_labels_and_profile(make_node: Maker, tmp_path: Path) -> None:
    node = make_node("docker", tmp_path, "labels")
    engine = connect()
    try:
        with trajectory_on(node) as trajectory, trajectory.lease() as lease:
            (container,) = engine.containers.list(filters={"label": f"{LEASE}={lease.sandbox.lease}"})
            assert container.labels["tangram.owner"] == "tests"
            assert container.labels["tangram.node"] == "labels-docker"
            assert container.labels["tangram.trajectory"] == trajectory.id
            profile = container.attrs["HostConfig"]
            assert profile["ReadonlyRootfs"]
            assert profile["PidsLimit"] == 256
            assert profile["Memory"] == profile["MemorySwap"] == 256 << 20
            assert profile["NetworkMode"] == "none"
            assert profile["LogConfig"]["Type"] == "none"
            assert not profile["CpuQuota"]  # a reset by the engine must fail open, not into the idle quota
    finally:
        engine.close()
        node.stop()


@pytest.mark.docker
def test_a_container_that_vanishes_is_told(make_node: Maker, tmp_path: Path) -> None:
    node = make_node("docker", tmp_path, "vanish")
    engine = connect()
    try:
        with trajectory_on(node) as trajectory, trajectory.lease() as lease:
            (container,) = engine.containers.list(filters={"label": f"{LEASE}={lease.sandbox.lease}"})
            container.remove(force=True, v=True)
            with pytest.raises(SandboxError, match=f"trajectory {trajectory.id} on vanish-docker"):
                lease.exec(["true"])
    finally:
        engine.close()
        node.stop()


@no_engine
def test_no_engine_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    with pytest.raises(ConfigurationError, match="start it, or set DOCKER_HOST"):
        CpuNode(node="n", owner="tests", state_dir=tmp_path, backend="docker")
    gc.collect()


@no_engine
def test_auto_falls_back_and_says_why_nothing_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(
        ConfigurationError, match=r"DOCKER_HOST.*install the package bubblewrap.*TANGRAM_UNSAFE_LOCAL=1"
    ):
        CpuNode(node="n", owner="tests", state_dir=tmp_path)
    node = CpuNode(node="n", owner="tests", state_dir=tmp_path, unsafe_local=True)
    assert node.backend_name == "local"
    node.stop()
    gc.collect()
