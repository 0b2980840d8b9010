"""A deployment killed with containers running leaves none of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from compose.containers import OWNER_LABEL, remove_containers
from compose.image import build_base_image
from tests.waiting import wait_until

pytestmark = pytest.mark.docker

# Runs a stack with one CPU node, opens a trajectory, says whose containers they are, and waits to be killed.
SCRIPT = """
import sys, time
from pathlib import Path
from compose.embedded import Stack
from compose.stack_config import CpuNodeConfig, StackConfig
from tangram_tasks import TangramApp
from tangram_tasks.tools import bash
node = CpuNodeConfig(name="cpu-1", cores=1, memory_mib=512, backend="docker")
with Stack(StackConfig(persistent=False, state_dir=Path(sys.argv[1]), cpu=(node,))) as stack:
    app = TangramApp("client", broker=stack.broker_url)
    app.set_current()
    with app.trajectory(memory="64MiB"):
        bash.delay("true").get(timeout=60)
        print(stack.owner, flush=True)
        time.sleep(600)
"""


def containers(owner: str) -> list[str]:
    client = docker.from_env()
    try:
        found = client.containers.list(all=True, filters={"label": f"{OWNER_LABEL}={owner}"}, ignore_removed=True)
        return [container.id or "" for container in found]
    finally:
        client.close()


@pytest.fixture
def deployment(docker_engine: str, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    build_base_image()
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        try:
            assert owner, "the deployment did not come up"
            yield process, owner
        finally:
            process.kill()
            if owner:
                remove_containers(owner)


def test_kill_9_leaves_no_container(deployment: tuple[subprocess.Popen[str], str]) -> None:
    process, owner = deployment
    assert len(containers(owner)) == 1
    process.kill()
    process.wait()
    wait_until(lambda: containers(owner) == [], "the containers are gone")


def test_ctrl_c_leaves_no_container(deployment: tuple[subprocess.Popen[str], str]) -> None:
    process, owner = deployment
    process.send_signal(2)
    assert process.wait(30) != 0
    assert containers(owner) == []


def test_only_the_owners_containers_are_removed(deployment: tuple[subprocess.Popen[str], str]) -> None:
    _, owner = deployment
    assert remove_containers("somebody-else") == 0
    assert len(containers(owner)) == 1
    assert remove_containers(owner) == 1
    assert containers(owner) == []
