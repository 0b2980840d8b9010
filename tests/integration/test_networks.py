"""What a sandbox can reach, and when: on whole deployments, seen from inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import docker
import pytest
from docker.errors import APIError
from docker.models.networks import Network

from compose.embedded import Stack
from compose.image import build_base_image
from compose.stack_config import CpuNodeConfig, StackConfig
from tangram_tasks import SandboxError, TangramApp
from tangram_tasks.tools import bash
from tests.waiting import wait_until

pytestmark = pytest.mark.docker
WAIT = 60
PORT = 8125
SERVE = f"echo hello > f; setsid python3 -m http.server {PORT} >/dev/null 2>&1 &"
ASK = "import urllib.request as u; print(u.urlopen('http://{}:{}/f', timeout=2).read().decode(), end='')"
ALONE = "lo\n"


@pytest.fixture(scope="module")
def stack(docker_engine: str) -> Iterator[Stack]:
    build_base_image()
    with Stack(StackConfig(persistent=False, cpu=(CpuNodeConfig(name="cpu-1", backend="docker"),))) as stack:
        yield stack


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture
def named(stack: Stack, engine: docker.DockerClient) -> Iterator[str]:
    network = engine.networks.create(f"net-{stack.owner}", internal=True)
    yield str(network.name)
    wait_until(lambda: removed(network), "the sandboxes have left the network")


def removed(network: Network) -> bool:
    """Remove a network; False while a sandbox is about to leave it."""
    try:
        network.remove()
    except APIError as error:
        if "has active endpoints" not in str(error):
            raise
        return False
    return True


def interfaces() -> str:
    return str(bash.delay("ls /sys/class/net").get(timeout=WAIT)["stdout"])


def reply(address: str) -> Any:
    answer = bash.delay(f'python3 -c "{ASK.format(address, PORT)}"').get(timeout=WAIT)
    return answer["stdout"] if answer["exit_code"] == 0 else answer["stderr"].splitlines()[-1]


def networks_of(engine: docker.DockerClient, trajectory: str) -> dict[str, Any]:
    found = engine.containers.list(filters={"label": f"tangram.trajectory={trajectory}"})
    return dict(found[0].attrs["NetworkSettings"]["Networks"]) if found else {}


def address_of(engine: docker.DockerClient, trajectory: str, network: str) -> str:
    return str(networks_of(engine, trajectory)[network]["IPAddress"])


@pytest.fixture(params=["bridge", "named"])
def server(request: pytest.FixtureRequest, app: TangramApp, engine: docker.DockerClient) -> Iterator[tuple[str, str]]:
    """A server in another sandbox: its network and address."""
    network = request.getfixturevalue("named") if request.param == "named" else "bridge"
    with app.trajectory(network=network, memory="64MiB") as trajectory:
        bash.delay(SERVE).get(timeout=WAIT)
        address = address_of(engine, trajectory.id, network)
        wait_until(lambda: reply("127.0.0.1") == "hello\n", "it serves")
        yield network, address


def test_set_up_reaches_a_network_and_the_agent_does_not(app: TangramApp, server: tuple[str, str]) -> None:
    network, address = server
    with app.trajectory(memory="64MiB", network=network) as trajectory:
        assert reply(address) == "hello\n"
        trajectory.set_network("none")
        assert interfaces() == ALONE
        assert "unreachable" in reply(address)


def test_a_sandbox_made_without_a_network_may_get_one_for_a_while(app: TangramApp, server: tuple[str, str]) -> None:
    network, address = server
    with app.trajectory(memory="64MiB") as trajectory:
        assert "unreachable" in reply(address)
        for _ in range(2):
            trajectory.set_network(network)
            assert reply(address) == "hello\n"
            trajectory.set_network("none")
            assert interfaces() == ALONE


async def test_also_async_and_in_a_fork(app: TangramApp, named: str) -> None:
    async with app.trajectory(memory="64MiB", network=named) as trajectory:
        assert "eth0" in (await bash.adelay("ls /sys/class/net"))["stdout"]
        await trajectory.aset_network("none")
        async with trajectory.fork():
            assert (await bash.adelay("ls /sys/class/net"))["stdout"] == ALONE
        assert (await bash.adelay("ls /sys/class/net"))["stdout"] == ALONE


def test_no_action_runs_before_the_change_is_made(app: TangramApp, named: str) -> None:
    with app.trajectory(memory="64MiB", network=named) as trajectory:
        assert "eth0" in interfaces()
        trajectory.set_network("no-such-net")
        for _ in range(2):
            with pytest.raises(SandboxError, match=r"cannot join network no-such-net.*docker network ls"):
                bash.delay("true").get(timeout=WAIT)
        trajectory.set_network("none")
        assert interfaces() == ALONE


def test_what_runs_meanwhile_loses_the_network_too(app: TangramApp, named: str) -> None:
    with app.trajectory(memory="64MiB", network=named) as trajectory:
        assert "eth0" in interfaces()
        running = bash.delay("while ls /sys/class/net | grep -q eth; do sleep 0.05; done")
        trajectory.set_network("none")
        assert running.get(timeout=WAIT)["exit_code"] == 0


def test_a_change_that_failed_is_made_for_what_runs_already(
    app: TangramApp, stack: Stack, engine: docker.DockerClient
) -> None:
    with app.trajectory(memory="64MiB") as trajectory:
        assert interfaces() == ALONE
        wait_until(lambda: not app.redis.hlen(app.keys.running), "that has ended")
        running = bash.delay("until ls /sys/class/net | grep -q eth; do sleep 0.05; done")
        wait_until(lambda: app.redis.hlen(app.keys.running) == 1, "it runs: an action that starts later would fail")
        trajectory.set_network(f"late-{stack.owner}")
        wait_until(lambda: not networks_of(engine, trajectory.id), "it has left none, and found no other")
        network = engine.networks.create(f"late-{stack.owner}", internal=True)
        try:
            assert running.get(timeout=WAIT)["exit_code"] == 0
        finally:
            trajectory.set_network("none")
            wait_until(lambda: removed(network), "the sandbox has left the network")
