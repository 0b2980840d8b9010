"""An image without python3: the same promises through `docker exec`, where it can keep them."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tangram_tasks.errors import ActionCancelled, ActionOutOfMemory, ActionTimeout, SandboxError, SpawnFailed
from tests.integration.test_cpu_node.conftest import NodeMaker
from tests.support.cpu_nodes import Trajectory, order, processes_with
from tests.waiting import wait_until
from workers.docker_engine import connect
from workers.docker_sandbox import OWNER

pytestmark = pytest.mark.docker
IMAGE = "tangram-tests-snakeless:latest"
LEAVE = """
import os, sys
from pathlib import Path
from tests.support.cpu_nodes import Trajectory, order
from workers.cpu_node import CpuNode
node = CpuNode(node=sys.argv[1], owner="tests", state_dir=Path(sys.argv[2]), backend="docker")
node.open(order("t-left", image=sys.argv[3]))
with Trajectory("t-left", node).lease() as lease:
    lease.write_file("kept", "1")
os._exit(1)
"""
TREE = "echo before; echo apart >&2; setsid sleep 70707 & (sleep 70707 &); sleep 70707"


@pytest.fixture(scope="module")
def snakeless(base_image: str) -> Iterator[str]:
    """The base image without any python3."""
    engine = connect()
    script = "rm -f $(command -v python3) /usr/bin/python3* /usr/local/bin/python3*; ! command -v python3"
    container = engine.containers.create(base_image, ["sh", "-c", script], labels={OWNER: "tests"}, network_mode="none")
    try:
        container.start()
        assert container.wait()["StatusCode"] == 0
        container.commit(*IMAGE.split(":"))
    finally:
        container.remove(force=True)
    yield IMAGE
    engine.images.remove(IMAGE, force=True)
    engine.close()


@pytest.fixture
def trajectory(snakeless: str, make_node: NodeMaker, tmp_path: Path) -> Iterator[Trajectory]:
    node = make_node("docker", tmp_path, "snakeless")
    node.open(order("t", image=snakeless))
    yield Trajectory("t", node)
    node.stop()
    assert list(tmp_path.glob("sandboxes/*/sandbox-*")) == []


def test_commands_and_files(trajectory: Trajectory) -> None:
    assert trajectory.node.stats()["sandboxes_without_agent"] == 1
    with trajectory.lease() as lease:
        result = lease.exec(
            ["bash", "-c", 'read line; echo "$line $FROM_ORDER"; id -u; pwd; echo e >&2; exit 7'], stdin="hi\n"
        )
        assert (result.exit_code, result.stdout, result.stderr) == (7, "hi 1\n1000\n/work\n", "e\n")
        data = bytes(range(256)) * 4096
        lease.write_file("a/b.bin", data)
        lease.write_file("a/empty", b"")
    with trajectory.lease() as lease:
        assert lease.read_file("a/b.bin") == data
        assert lease.read_file("a/empty") == b""
        assert lease.exec(["wc", "-c"], stdin=b"y" * 3_000_000).stdout.split() == ["3000000"]
        assert lease.exec(["true"], stdin=b"y" * 3_000_000).ok
        with pytest.raises(FileNotFoundError, match="nope"):
            lease.read_file("nope")
        with pytest.raises(SandboxError, match="not a regular file"):
            lease.read_file("a")
        with pytest.raises(SpawnFailed, match="cannot start nope"):
            lease.exec(["nope"])


def test_output_is_capped_and_background_children_hold_nothing_up(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        flood = lease.exec(["sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' x; echo end"])
        assert flood.truncated
        assert len(flood.stdout) == 1 << 20
        assert flood.stdout.endswith("xend\n")
        assert lease.exec(["sh", "-c", "sleep 70707 & echo started"], timeout=20).stdout == "started\n"
        assert processes_with("70707"), "a server would live on"


def test_timeout_and_cancel_kill_the_tree_but_no_older_server(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        lease.exec(["sh", "-c", "setsid sleep 80808 >/dev/null 2>&1 &"])
        with pytest.raises(ActionTimeout, match=r"before\napart$"):
            lease.exec(["bash", "-c", TREE], timeout=1)
        wait_until(lambda: not processes_with("70707"), "the tree is gone")
    with trajectory.lease(action="c-1") as lease:
        canceller = threading.Timer(0.5, lambda: trajectory.node.cancel("c-1"))
        canceller.start()
        with pytest.raises(ActionCancelled):
            lease.exec(["bash", "-c", TREE])
        canceller.join()
        wait_until(lambda: not processes_with("70707"), "the tree is gone")
        assert processes_with("80808")


def test_out_of_memory_and_kill_everything(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        with pytest.raises(ActionOutOfMemory):
            lease.exec(["bash", "-c", "x=$(head -c 600000000 /dev/zero | tr '\\0' x); echo ${#x}"])
        assert lease.exec(["bash", "-c", "kill -9 -1"]).ok, "it spares its caller"
        assert lease.exec(["echo", "still up"]).ok


def test_parallel_commands(trajectory: Trajectory) -> None:
    with trajectory.lease(units=2) as lease, ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: lease.exec(["sh", "-c", f"sleep 0.1; echo {n}"]), range(8)))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(8)]


def test_it_says_so_and_cannot_be_forked(trajectory: Trajectory, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        trajectory.node.open(order("other", image=IMAGE))
    assert "has no python3 and works through docker exec" in caplog.text
    with pytest.raises(SandboxError, match="pack needs an image with a python3"):
        trajectory.node.open(order("fork", image=IMAGE).model_copy(update={"fork_of": "t"}))


def test_it_is_adopted_too(snakeless: str, make_node: NodeMaker, tmp_path: Path) -> None:
    make_node("docker", tmp_path, "legacy").stop()
    leave = subprocess.run([sys.executable, "-c", LEAVE, "legacy-docker", str(tmp_path), snakeless], check=False)
    assert leave.returncode == 1
    node = make_node("docker", tmp_path, "legacy")
    try:
        assert node.adopt() == ["t-left"]
        with Trajectory("t-left", node).lease() as lease:
            assert lease.read_file("kept") == b"1"
    finally:
        node.stop()
