"""A trajectory's whole life over real processes and real Docker."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import time
from collections.abc import Iterator
from typing import IO, Any

import pytest

from compose.embedded import Stack
from compose.image import build_base_image
from compose.stack_config import CpuNodeConfig, StackConfig
from tangram_tasks import ActionCancelled, ActionTimeout, NodeLost, SandboxError, SpawnFailed, TangramApp
from tangram_tasks.backend import REPORT
from tangram_tasks.tools import bash, python, read_file, run_tests, write_file
from tests.waiting import wait_until

pytestmark = pytest.mark.docker
WAIT = 60


@pytest.fixture(scope="module")
def stack(docker_engine: str) -> Iterator[Stack]:
    build_base_image()
    config = StackConfig(
        persistent=False,
        cpu=(CpuNodeConfig(name="cpu-1", backend="docker"),),
        settings={"heartbeat": "0.5", "node_timeout": "2"},
    )
    with Stack(config) as stack:
        yield stack


@contextlib.contextmanager
def kept_down(stack: Stack, node: str) -> Iterator[None]:
    """Let no new process take over a killed node's sandboxes before it counts as lost."""
    with (stack.state_dir / "sandboxes" / node / "lock").open() as file:
        wait_until(lambda: _locks(file), "the killed process has let go")
        yield


def _locks(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def containers(stack: Stack) -> list[Any]:
    import docker

    client = docker.from_env()
    try:
        return list(
            client.containers.list(all=True, ignore_removed=True, filters={"label": f"tangram.owner={stack.owner}"})
        )
    finally:
        client.close()


def test_state_is_kept_between_the_actions_of_a_trajectory(stack: Stack, app: TangramApp) -> None:
    with app.trajectory():
        assert write_file.delay("src/hello.py", "print(6 * 7)").get(timeout=WAIT) == 12
        ran = bash.delay("python3 src/hello.py; id -u")
        assert ran.get(timeout=WAIT) == {
            "exit_code": 0, "stdout": "42\n1000\n", "stderr": "", "truncated": False,
            "cwd": "/work", "restarted": False,
        }  # fmt: skip
        report = app.backend.get_task_meta(ran.id)[REPORT]
        assert report["node"] == "cpu-1"
        assert report["cpu_seconds"] > 0
        assert report["resize_s"] > 0
        assert read_file.delay("src/hello.py").get(timeout=WAIT) == "print(6 * 7)"
        assert len(containers(stack)) == 1
    wait_until(lambda: not containers(stack), "the sandbox is removed when the trajectory closes")


def test_errors_are_typed(app: TangramApp) -> None:
    with app.trajectory():
        with pytest.raises(FileNotFoundError):
            read_file.delay("nowhere").get(timeout=WAIT)
        with pytest.raises(ActionTimeout):
            bash.using(timeout=0.5).delay("echo started; sleep 30").get(timeout=WAIT)
        assert bash.delay("no-such-command").get(timeout=WAIT)["exit_code"] == 127
        assert bash.delay("pgrep sleep || echo gone").get(timeout=WAIT)["stdout"] == "gone\n"
        assert python.delay("import sys; sys.exit(3)").get(timeout=WAIT)["exit_code"] == 3


def test_a_flood_of_output_is_cut_and_said(app: TangramApp) -> None:
    with app.trajectory():
        flood = bash.delay("head -c 100000000 /dev/zero | tr '\\0' x").get(timeout=WAIT)
        assert flood["exit_code"] == 0
        assert flood["truncated"]
        assert len(flood["stdout"]) <= 2**20


def test_a_suite_runs_elastically(app: TangramApp) -> None:
    with app.trajectory(memory="1GiB"):
        write_file.delay("test_it.py", "def test_yes(): pass\ndef test_no(): assert False\n").get(timeout=WAIT)
        wait_until(lambda: not app.redis.hlen(app.keys.grants), "the write's unit is back")
        result = run_tests.delay("test_it.py")
        outcome = result.get(timeout=WAIT)
        assert (outcome["passed"], outcome["failed"], outcome["exit_code"]) == (1, 1, 1)
        assert app.backend.get_task_meta(result.id)[REPORT]["units"] == 2, "both cores of the node"


def test_a_missing_image_fails_the_trajectorys_actions(app: TangramApp) -> None:
    with app.trajectory(image="tangram-no-such-image"), pytest.raises(SandboxError, match="tangram-no-such-image"):
        bash.delay("true").get(timeout=WAIT)


def test_an_action_after_the_end_is_refused(app: TangramApp) -> None:
    with app.trajectory() as t:
        bash.delay("true").get(timeout=WAIT)
    with pytest.raises(SandboxError, match="closed"):
        bash.using(trajectory=t.id).delay("true").get(timeout=WAIT)


def test_a_trajectory_nobody_closes_ends_by_its_lease(stack: Stack, app: TangramApp) -> None:
    t = app.trajectory(max_lifetime="3s")
    t.__enter__()
    t._leave()
    bash.using(trajectory=t.id).delay("true").get(timeout=WAIT)
    assert containers(stack)
    wait_until(lambda: not containers(stack), "the lease ends and the sandbox is removed")


async def test_cancelling_a_running_action_kills_it(app: TangramApp) -> None:
    async with app.trajectory():
        handle = await bash.asubmit("sleep 60")
        await asyncio.sleep(1.5)
        started = time.monotonic()
        await handle.cancel()
        with pytest.raises(ActionCancelled):
            await handle
        assert time.monotonic() - started < 10
        assert (await bash.adelay("pgrep sleep || echo gone"))["stdout"] == "gone\n"


async def test_parallel_calls_of_one_turn(app: TangramApp) -> None:
    async with app.trajectory():
        answers = await asyncio.gather(*(bash.adelay(f"sleep 0.2; echo {i}") for i in range(6)))
        assert [answer["stdout"] for answer in answers] == [f"{i}\n" for i in range(6)]


@pytest.mark.chaos
def test_worker_killed_its_actions_end_and_its_containers_go(stack: Stack, app: TangramApp) -> None:
    with app.trajectory():
        bash.delay("true").get(timeout=WAIT)
        running = bash.delay("sleep 60")
        time.sleep(0.5)
        stack.kill("cpu-1")
        with kept_down(stack, "cpu-1"):
            with pytest.raises(NodeLost, match="cpu-1"):
                running.get(timeout=WAIT)
            with pytest.raises(NodeLost):
                bash.delay("true").get(timeout=WAIT)
    wait_until(lambda: not containers(stack), "the next process of the node removes what the killed one left", 30)
    with app.trajectory():
        assert bash.delay("echo again").get(timeout=WAIT)["stdout"] == "again\n", "its cores are back"


def test_spawn_failure_is_typed(app: TangramApp) -> None:
    with app.trajectory(), pytest.raises(SpawnFailed):
        bash.delay("true", cwd="/no/such/folder").get(timeout=WAIT)
