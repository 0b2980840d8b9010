"""The engine stops, fails, or somebody else gives it orders about our containers."""

from __future__ import annotations

import contextlib
import gc
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import docker
import pytest

from compose.image import BASE_IMAGE
from tangram_tasks.errors import SandboxError
from tangram_tasks.sandbox import ExecResult
from tests.conftest import unavailable
from tests.integration.test_cpu_node.conftest import NodeMaker
from tests.support.cpu_nodes import Trajectory, order, trajectory_on
from tests.waiting import wait_until
from workers import sandbox_folder
from workers.cpu_node import CpuNode
from workers.docker_engine import connect
from workers.docker_sandbox import LEASE, NODE, OWNER
from workers.sandbox_lease import SandboxLease
from workers.sandbox_policy import SandboxPolicy

pytestmark = pytest.mark.docker
#: The docker package forgets to close its socket when no engine answers.
no_engine = pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")


class Engine:
    """A Docker engine of the test's own, that may be stopped.

    It has a network namespace of its own: an engine without a bridge removes `docker0`, which is another's here.
    """

    def __init__(self, folder: Path, *, live_restore: bool) -> None:
        self.url = f"unix://{folder}/socket"
        self._folder, self._live_restore = folder, live_restore
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        folder = self._folder
        (folder / "pid").unlink(missing_ok=True)
        command = [
            "unshare",
            "--net",
            "dockerd",
            "--data-root",
            f"{folder}/data",
            "--exec-root",
            f"{folder}/exec",
            "-H",
            self.url,
        ]
        command += ["-p", f"{folder}/pid", "--bridge=none", "--iptables=false", "--ip6tables=false"]
        command += ["--live-restore"] if self._live_restore else []
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._answers, "the engine answers", 40)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(40)
            self._process = None

    def discard(self) -> None:
        """Stop, and remove the folder: what an engine leaves mounted there would stop pytest from cleaning up."""
        self.stop()
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
        for mount in sorted((mount for mount in mounts if Path(mount).is_relative_to(self._folder)), reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=True)
        shutil.rmtree(self._folder)

    def _answers(self) -> bool:
        try:
            with contextlib.closing(docker.DockerClient(self.url, timeout=5)) as client:
                return bool(client.ping())
        except Exception:  # noqa: BLE001  # whatever a starting engine says
            return False


class Commands:
    """An action that runs commands beside the test."""

    def __init__(self, lease: SandboxLease, pool: ThreadPoolExecutor) -> None:
        self.lease, self._pool = lease, pool

    def start(self, argv: list[str]) -> Future[ExecResult]:
        started = self._pool.submit(self.lease.exec, argv)
        time.sleep(0.3)
        return started


@contextlib.contextmanager
def running(node: CpuNode, trajectory: str) -> Iterator[Commands]:
    with Trajectory(trajectory, node).lease(seconds=60) as lease, ThreadPoolExecutor(1) as pool:
        yield Commands(lease, pool)


@pytest.fixture
def make_engine(
    base_image: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[bool], Engine]]:
    """Return a maker of an engine that holds the base image, and is the one that nodes find."""
    if shutil.which("dockerd") is None:
        unavailable("no dockerd to start an engine of one's own")
    started: list[Engine] = []

    def make(live_restore: bool) -> Engine:
        folder = tmp_path_factory.mktemp("engine")
        engine = Engine(folder, live_restore=live_restore)
        engine.start()
        started.append(engine)
        subprocess.run(f"docker save {BASE_IMAGE} | docker -H {engine.url} load", shell=True, check=True)
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        return engine

    yield make
    for engine in started:
        with contextlib.closing(docker.DockerClient(engine.url)) as client:
            for container in client.containers.list(all=True):
                container.remove(force=True)
        engine.discard()
    gc.collect()  # of sockets that the docker package left open, where their warning is ignored


@no_engine
def test_an_engine_with_live_restore_may_stop_in_mid_action(
    make_engine: Callable[[bool], Engine], make_node: NodeMaker, tmp_path: Path
) -> None:
    engine = make_engine(True)
    node = make_node("docker", tmp_path, "restored")
    try:
        with trajectory_on(node) as trajectory:
            with running(node, trajectory.id) as commands:
                slow = commands.start(["sh", "-c", "sleep 2; echo done"])
                engine.stop()
                assert slow.result(20).stdout == "done\n"
                assert commands.lease.exec(["echo", "without an engine"]).ok
            with pytest.raises(SandboxError, match="trajectory none"):
                node.open(order("none"))
            engine.start()
            with trajectory.lease() as lease:
                assert lease.exec(["echo", "with it again"]).ok
            node.open(order("next"))
            node.close("next")
        assert list(tmp_path.glob("sandboxes/*/sandbox-*")) == []
    finally:
        node.stop()


@no_engine
def test_an_engine_that_takes_its_containers_along(
    make_engine: Callable[[bool], Engine], make_node: NodeMaker, tmp_path: Path
) -> None:
    engine = make_engine(False)
    node = make_node("docker", tmp_path, "taken")
    try:
        node.open(order("t"))
        with running(node, "t") as commands:
            sleeping = commands.start(["sleep", "30"])
            engine.stop()
            with pytest.raises(SandboxError, match="sandbox of trajectory t on taken-docker is gone"):
                sleeping.result(20)
        with pytest.raises(SandboxError, match="cannot be removed"):
            node.close("t")
        engine.start()
        wait_until(lambda: node.stats()["sandboxes"] == 0, "the removal is tried again", 20)
        assert list(tmp_path.glob("sandboxes/*/sandbox-*")) == []
        with trajectory_on(node) as trajectory, trajectory.lease() as lease:
            assert lease.exec(["true"]).ok
    finally:
        node.stop()


@pytest.mark.parametrize(
    ("deed", "options"), [("restart", {"timeout": 0}), ("kill", {}), ("remove", {"force": True, "v": True})]
)
def test_somebody_elses_order_in_mid_action_is_told_and_leaves_nothing(
    deed: str, options: dict[str, object], make_node: NodeMaker, tmp_path: Path
) -> None:
    node = make_node("docker", tmp_path, "meddled")
    engine = connect()
    try:
        node.open(order("t"))
        with running(node, "t") as commands:
            (container,) = engine.containers.list(filters={"label": f"{LEASE}={commands.lease.sandbox.lease}"})
            sleeping = commands.start(["sleep", "30"])
            getattr(container, deed)(**options)
            with pytest.raises(SandboxError, match="sandbox of trajectory t on meddled-docker is gone"):
                sleeping.result(20)
        with pytest.raises(SandboxError), running(node, "t") as commands:
            commands.start(["true"]).result(20)
        assert node.stats()["cpu_free"] == node.capacity["cpu"]
        node.close("t")
        assert engine.containers.list(all=True, filters={"label": f"{NODE}={node.node}"}, ignore_removed=True) == []
        assert list(tmp_path.glob("sandboxes/*/sandbox-*")) == []
    finally:
        engine.close()
        node.stop()


@pytest.fixture
def broken_image(base_image: str) -> Iterator[str]:
    """An image whose python3 does not do what an agent's must: it starts and says nothing."""
    engine = connect()
    script = r"printf '#!/bin/sh\nsleep 1000\n' > /usr/local/bin/python3; chmod +x /usr/local/bin/python3"
    container = engine.containers.create(base_image, ["sh", "-c", script], labels={OWNER: "tests"}, network_mode="none")
    try:
        container.start()
        container.wait()
        container.commit("tangram-tests-broken", "latest", changes=["ENV PATH=/usr/local/bin:/usr/bin:/bin"])
    finally:
        container.remove(force=True)
    yield "tangram-tests-broken:latest"
    engine.images.remove("tangram-tests-broken:latest", force=True)
    engine.close()


def test_twenty_creations_of_a_bad_image_leave_nothing(
    broken_image: str, make_node: NodeMaker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sandbox_folder, "READY_TIME", 1.0)
    node = make_node("docker", tmp_path, "bad")
    engine = connect()

    def fails(number: int) -> str:
        with pytest.raises(SandboxError, match="its agent is silent after 1 s") as caught:
            node.open(order(f"t-{number}", image=broken_image, memory=64))
        return str(caught.value)

    try:
        with ThreadPoolExecutor(20) as pool:
            messages = list(pool.map(fails, range(20)))
        assert all(f"trajectory t-{number} " in message for number, message in enumerate(messages))
        assert engine.containers.list(all=True, filters={"label": f"{NODE}={node.node}"}, ignore_removed=True) == []
        assert list(tmp_path.glob("sandboxes/*/sandbox-*")) == []
        assert node.stats() | {"sandboxes": 0, "sandboxes_failed": 20} == node.stats()
        with trajectory_on(node) as trajectory, trajectory.lease() as lease:
            assert lease.exec(["true"]).ok
    finally:
        engine.close()
        node.stop()


def test_a_bad_image_is_not_warmed_again_and_again(make_node: NodeMaker, tmp_path: Path) -> None:
    node = make_node("docker", tmp_path, "cold", policy=SandboxPolicy(warm={"nope:1": 2}))
    try:
        wait_until(lambda: node.stats().get("warm_failures", 0) >= 1, "it is tried")
        time.sleep(2.5)
        assert node.stats()["warm_failures"] <= 3, "after 1 s, then 2 s, then 4 s"
        with trajectory_on(node):
            pass
    finally:
        node.stop()


def test_a_full_disk_is_the_commands_own_error(make_node: NodeMaker, tmp_path: Path) -> None:
    node = make_node("docker", tmp_path, "full")
    try:
        with trajectory_on(node, memory=128) as trajectory:
            with trajectory.lease() as lease:
                for folder in ("/work", "/tmp"):
                    full = lease.exec(
                        ["sh", "-c", f"head -c 100000000 /dev/zero > {folder}/big; stat -c %s {folder}/big"]
                    )
                    assert "No space left on device" in full.stderr
                    assert int(full.stdout) < 128 << 20
                with pytest.raises(SandboxError, match="No space left"):
                    lease.write_file("more", b"x" * 100_000)
                assert "Read-only file system" in lease.exec(["sh", "-c", "echo > /usr/big"]).stderr
            with trajectory.lease() as lease:
                lease.exec(["rm", "big", "/tmp/big"])
                lease.write_file("more", b"x" * 100_000)
                assert lease.exec(["wc", "-c", "more"]).stdout.startswith("100000")
    finally:
        node.stop()
