"""A worker is killed: the next process of the node goes on with its containers."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_cpu_node.conftest import NodeMaker
from tests.support.cpu_nodes import Trajectory, processes_with
from tests.waiting import wait_until
from workers.cgroups import IDLE_US, find
from workers.docker_engine import connect
from workers.docker_sandbox import LEASE
from workers.sandbox_folder import SandboxFolder

pytestmark = pytest.mark.docker

SERVER = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8123, bind='127.0.0.1')"
ASK = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/kept.txt').read().decode())"
DYING = f"""
import sys, time
from pathlib import Path
from tests.support.cpu_nodes import Trajectory, order
from workers.cpu_node import CpuNode
node = CpuNode(node=sys.argv[1], owner="tests", state_dir=Path(sys.argv[2]), backend="docker")
node.open(order("t-kept"))
with Trajectory("t-kept", node).lease() as lease:
    lease.write_file("kept.txt", "still here")
    lease.exec(["bash", "-c", '''setsid python3 -c "{SERVER}" >/dev/null 2>&1 &'''])
    lease.exec(["bash", "-c", "until : </dev/tcp/127.0.0.1/8123; do sleep 0.05; done"])
    print(lease.sandbox.lease, flush=True)
    lease.exec(["bash", "-c", "while true; do sleep 24601; done"])
"""


@pytest.fixture
def killed(make_node: NodeMaker, tmp_path: Path) -> Iterator[str]:
    """The lease of a sandbox whose worker was killed in mid-action."""
    make_node("docker", tmp_path, "mortal").stop()
    dying = subprocess.Popen(
        [sys.executable, "-c", DYING, "mortal-docker", str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert dying.stdout is not None
    lease = dying.stdout.readline().strip()
    wait_until(lambda: bool(processes_with("24601")), "the action runs")
    dying.send_signal(signal.SIGKILL)
    dying.communicate(timeout=20)
    yield lease
    engine = connect()
    for container in engine.containers.list(all=True, filters={"label": f"{LEASE}={lease}"}, ignore_removed=True):
        container.remove(force=True, v=True)
    engine.close()


def test_files_and_servers_outlive_the_worker(killed: str, make_node: NodeMaker, tmp_path: Path) -> None:
    node = make_node("docker", tmp_path, "mortal")
    try:
        assert node.adopt() == ["t-kept"]
        assert node.sweep() == []
        assert node.trajectories == ("t-kept",)
        wait_until(lambda: not processes_with("24601"), "what the dead worker's action ran is gone")
        with Trajectory("t-kept", node).lease() as lease:
            assert lease.sandbox.lease == killed
            assert lease.read_file("kept.txt") == b"still here"
            assert lease.exec(["python3", "-c", ASK]).stdout == "still here\n", "the server answers still"
            group = find(processes_with(SERVER)[0])
            assert _quota(group.folders["cpu"]) > IDLE_US
        assert _quota(group.folders["cpu"]) == IDLE_US
        node.close("t-kept")
        assert list(tmp_path.glob("sandboxes/*/sandbox-*")) == []
    finally:
        node.stop()


def _quota(folder: Path) -> int:
    file = folder / "cpu.cfs_quota_us"
    return int((file if file.exists() else folder / "cpu.max").read_text().split()[0])


@pytest.mark.parametrize("change", ["restart", "pause", "stop", "remove"])
def test_a_container_that_somebody_changed_is_not_adopted(
    killed: str, change: str, make_node: NodeMaker, tmp_path: Path
) -> None:
    engine = connect()
    (container,) = engine.containers.list(filters={"label": f"{LEASE}={killed}"})
    if change == "remove":
        container.remove(force=True)
    elif change == "pause":
        container.pause()
    else:
        getattr(container, change)(timeout=0)
    engine.close()
    node = make_node("docker", tmp_path, "mortal")
    try:
        assert node.adopt() == []
        assert node.sweep() == [killed]
        assert node.stats()["sandboxes"] == 0
        assert list(tmp_path.glob("sandboxes/*/sandbox-*")) == []
    finally:
        node.stop()


def test_a_lease_that_is_over_is_not_adopted(killed: str, make_node: NodeMaker, tmp_path: Path) -> None:
    (path,) = tmp_path.glob("sandboxes/*/sandbox-*")
    record = SandboxFolder(path).record()
    assert record is not None
    over = record.order.model_copy(update={"expires_at": time.time() - 3600})
    SandboxFolder(path).remember(over, record.stamp)
    node = make_node("docker", tmp_path, "mortal")
    try:
        assert node.adopt() == []
        assert node.sweep() == [killed]
    finally:
        node.stop()
