"""What rollout code sees of sandboxes that outlive a worker, are forked, or belong to nobody; on whole deployments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from click.testing import CliRunner

from compose.cli import cli
from compose.embedded import Stack
from compose.image import build_base_image
from compose.stack_config import CpuNodeConfig, StackConfig
from tangram_tasks import NodeLost, SandboxError, TangramApp
from tangram_tasks.control_messages import CloseTrajectory
from tangram_tasks.settings import settings
from tangram_tasks.tools import bash, read_file, write_file
from tangram_tasks.wire import NodeRecord
from tests.support.judges import grade, judge
from tests.waiting import wait_until

pytestmark = pytest.mark.docker
WAIT = 60
SERVE = "cd /work; setsid python3 -m http.server 8124 --bind 127.0.0.1 >/dev/null 2>&1 & sleep 1"
ASK = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8124/f').read().decode())\""
HIDDEN = "import sys; sys.path.insert(0, '/work')\nfrom answer import f\ndef test_f(): assert f(3) == 9\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "set").mkdir()
    (folder / "set" / "rows").write_text("1 2 3")
    return folder


@pytest.fixture(scope="module")
def stack(docker_engine: str, data: Path) -> Iterator[Stack]:
    build_base_image()
    node = CpuNodeConfig(
        name="cpu-1", backend="docker", warm={"tangram-base:latest": 1}, warm_memory_mib=64, mount_roots=(data,)
    )
    config = StackConfig(
        persistent=True,
        cpu=(node,),
        imports=("tests.support.judges",),
        settings={"heartbeat": "0.3", "node_timeout": "30"},
    )
    with Stack(config) as stack:
        yield stack


def containers(stack: Stack) -> list[str]:
    client = docker.from_env()
    try:
        found = client.containers.list(filters={"label": f"tangram.owner={stack.owner}"}, ignore_removed=True)
        return [container.labels["tangram.trajectory"] for container in found]
    finally:
        client.close()


@pytest.mark.chaos
@pytest.mark.parametrize("victims", [("cpu-1",), ("cpu-1", "scheduler")])
def test_a_trajectory_outlives_its_worker(stack: Stack, app: TangramApp, victims: tuple[str, ...]) -> None:
    with app.trajectory() as t:
        bash.delay("echo kept > f; " + SERVE).get(timeout=WAIT)
        running = [bash.delay("sleep 50") for _ in range(2)]
        time.sleep(1)
        waiting = bash.delay(ASK)
        for victim in victims:
            stack.kill(victim)
        for doomed in running:
            with pytest.raises(NodeLost, match="so it does not run again"):
                doomed.get(timeout=WAIT)
        assert waiting.get(timeout=WAIT)["stdout"] == "kept\n\n", "it waited on, and the server answers still"
        assert bash.delay("pgrep sleep || cat f").get(timeout=WAIT)["stdout"] == "kept\n"
        assert t.id in containers(stack)
    wait_until(lambda: t.id not in containers(stack), "it goes when its trajectory ends")


@pytest.mark.chaos
def test_a_trajectory_closed_while_its_node_was_down_leaves_nothing(stack: Stack, app: TangramApp) -> None:
    with app.trajectory() as t:
        bash.delay("true").get(timeout=WAIT)
        stack.kill("cpu-1")
    wait_until(lambda: t.id not in containers(stack), "the new process is told to remove it", 30)


@pytest.mark.chaos
def test_what_nobody_can_adopt_is_lost(stack: Stack, app: TangramApp) -> None:
    with app.trajectory() as t:
        bash.delay("true").get(timeout=WAIT)
        client = docker.from_env()
        (container,) = client.containers.list(filters={"label": f"tangram.trajectory={t.id}"})
        stack.kill("cpu-1")
        container.remove(force=True)
        client.close()
        with pytest.raises(NodeLost, match="sandbox"):
            bash.delay("true").get(timeout=WAIT)


@pytest.mark.chaos
def test_what_it_may_reach_outlives_worker_and_scheduler(stack: Stack, app: TangramApp) -> None:
    with app.trajectory(network="bridge") as trajectory:
        assert "eth0" in bash.delay("ls /sys/class/net").get(timeout=WAIT)["stdout"]
        for name in ("cpu-1", "scheduler"):
            stack.kill(name)
        trajectory.set_network("none")  # nobody is there to hear it
        assert bash.delay("ls /sys/class/net").get(timeout=WAIT)["stdout"] == "lo\n"


@pytest.mark.chaos
def test_a_node_that_drains_finishes_what_is_bound_to_it_and_leaves(
    stack: Stack, app: TangramApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TANGRAM_BROKER_URL", stack.broker_url)
    settings.cache_clear()
    with app.trajectory() as old:
        bash.delay("echo 1 > f").get(timeout=WAIT)
        assert "no node is called nobody: cpu-1" in CliRunner().invoke(cli, ["drain", "nobody"]).output
        drained = CliRunner().invoke(cli, ["drain", "cpu-1"])
        assert "cpu-1 drains" in drained.output
        time.sleep(1.5)
        with app.trajectory():
            later = bash.delay("echo elsewhere")
            time.sleep(3)
            assert bash.using(trajectory=old.id).delay("cat f").get(timeout=WAIT)["stdout"] == "1\n"
            with old.fork() as fork:
                assert bash.using(trajectory=fork.id).delay("cat f").get(timeout=WAIT)["stdout"] == "1\n"
            assert not later.ready(), "a trajectory that came later waits for another node"
            app.send_control(CloseTrajectory(trajectory=old.id))
            assert later.get(timeout=WAIT)["stdout"] == "elsewhere\n", "the next process of the node takes it"
    settings.cache_clear()


def test_grading_in_a_fork(app: TangramApp) -> None:
    with app.trajectory(memory="256MiB") as t:
        write_file.delay("answer.py", "def f(x): return x * x").get(timeout=WAIT)
        with t.fork():
            assert grade.delay(HIDDEN).get(timeout=WAIT) == 1.0
        assert bash.delay("ls /work").get(timeout=WAIT)["stdout"] == "answer.py\n", "the agent never sees the tests"
        write_file.delay("answer.py", "def f(x): return x").get(timeout=WAIT)
        with t.fork(memory="200MiB"):
            assert grade.delay(HIDDEN).get(timeout=WAIT) == 0.0


def test_the_fork_of_a_closed_trajectory_says_so(app: TangramApp) -> None:
    with app.trajectory() as t:
        bash.delay("true").get(timeout=WAIT)
    with t.fork(), pytest.raises(SandboxError, match=f"forks {t.id}, which is not open"):
        bash.delay("true").get(timeout=WAIT)


def test_stateless_actions_need_no_trajectory(app: TangramApp) -> None:
    soil = "open('/tmp/x', 'w').write('1'); import os; print(os.listdir('/tmp'))"
    answers = [judge.delay(soil) for _ in range(6)]
    assert [answer.get(timeout=WAIT)["stdout"] for answer in answers] == ["['x']\n"] * 6


def test_data_is_mounted_read_only_below_the_roots(app: TangramApp, data: Path) -> None:
    with app.trajectory(mounts={str(data / "set"): "/data"}, user=4321):
        assert read_file.delay("/data/rows").get(timeout=WAIT) == "1 2 3"
        answer = bash.delay("touch /data/new; id -u; touch mine").get(timeout=WAIT)
        assert "Read-only file system" in answer["stderr"]
        assert answer["stdout"] == "4321\n"
        assert answer["exit_code"] == 0
    with (
        app.trajectory(mounts={"/etc": "/data"}),
        pytest.raises(SandboxError, match=r"/etc cannot be mounted.*mount_roots"),
    ):
        bash.delay("true").get(timeout=WAIT)


def test_networks(stack: Stack, app: TangramApp) -> None:
    client = docker.from_env()
    network = client.networks.create(f"net-{stack.owner}", internal=True)
    try:
        with app.trajectory(network=str(network.name)):
            assert "eth0" in bash.delay("ls /sys/class/net").get(timeout=WAIT)["stdout"]
        wait_until(lambda: not client.networks.get(str(network.id)).containers, "the sandbox has left the network")
    finally:
        network.remove()
        client.close()
    with app.trajectory():
        assert bash.delay("ls /sys/class/net").get(timeout=WAIT)["stdout"] == "lo\n"
    with app.trajectory(network="no-such-net"), pytest.raises(SandboxError, match="no-such-net"):
        bash.delay("true").get(timeout=WAIT)


def test_an_operator_changes_what_is_kept_warm(stack: Stack, app: TangramApp, monkeypatch: pytest.MonkeyPatch) -> None:
    def node() -> NodeRecord:
        row: Any = app.redis.hget(app.keys.nodes, "cpu-1")
        return NodeRecord.model_validate_json(row)

    monkeypatch.setenv("TANGRAM_BROKER_URL", stack.broker_url)
    settings.cache_clear()
    wait_until(lambda: node().stats["warm_ready"] == 1, "the pool is full")
    before = node().capacity["memory"]
    for count in (3, 0, 1):
        told = CliRunner().invoke(cli, ["warm", "cpu-1", "tangram-base:latest", str(count), "--memory", "96MiB"])
        assert told.exit_code == 0, told.output
        wait_until(lambda: node().stats["warm_ready"] == 1 + count, "the pool follows", WAIT)  # noqa: B023
        assert node().capacity["memory"] == before - 96 * count
    with app.trajectory(memory="96MiB"):
        assert bash.delay("true").get(timeout=WAIT)["exit_code"] == 0
    wait_until(lambda: node().stats.get("warm_claims", 0) >= 1, "it was claimed")
    settings.cache_clear()
