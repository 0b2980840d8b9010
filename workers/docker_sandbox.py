"""Sandboxes as Docker containers: one per trajectory, with our agent as its first process."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tangram_tasks.action import Qos
from tangram_tasks.errors import ConfigurationError, SandboxError
from tangram_tasks.wire import OpenTrajectory
from workers import isolation
from workers.agent_archive import write_agent
from workers.cgroups import IDLE_US, PERIOD_US, SHARES, Cgroup, find
from workers.live_sandbox import CpuControl, LiveSandbox
from workers.sandbox_folder import SOCKET, SandboxFolder
from workers.scope_leaf import own_leaf

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

logger = logging.getLogger(__name__)

OWNER, NODE, TRAJECTORY, LEASE = "tangram.owner", "tangram.node", "tangram.trajectory", "tangram.lease"
_ENGINE_TIME = 60  # s for one call to the engine


class DockerBackend:
    """Makes containers. See `workers.sandbox_backend.SandboxBackend`.

    Args:
        node: the node.
        owner: the deployment; sweeps touch only containers with both labels.
        state_dir: must be the same path for the engine, which mounts from it.

    Raises:
        ConfigurationError: the engine does not answer, or the `docker` package is missing.
    """

    name = "docker"

    def __init__(self, *, node: str, owner: str, state_dir: Path) -> None:
        self._labels = {OWNER: owner, NODE: node}
        self._node = node
        self._engine = connect()
        self._agent = write_agent(state_dir)

    def create(self, order: OpenTrajectory, folder: Path) -> LiveSandbox:
        """See SandboxBackend."""
        where = SandboxFolder(folder)
        name = f"sandbox of trajectory {order.trajectory} on {self._node}"
        with contextlib.ExitStack() as undo:
            where.create()
            undo.callback(where.remove)
            container = self._container(order, where, name)
            undo.callback(_remove, container)
            _start(container, order.image, name)
            client = where.admit(name, lambda: _why_dead(container))
            undo.callback(client.close)
            control = _control(container)
            control.idle()
            undo.pop_all()

        def dispose() -> None:
            _remove(container)
            where.remove()

        return LiveSandbox(
            trajectory=order.trajectory,
            lease=folder.name,
            env=order.env,
            client=client,
            control=control,
            dispose=dispose,
        )

    def sweep(self, folders: list[Path], live: set[str]) -> list[str]:
        """See SandboxBackend. Also finds containers whose folder is gone."""
        wanted = [f"{label}={value}" for label, value in self._labels.items()]
        removed = set()
        for container in self._engine.containers.list(all=True, ignore_removed=True, filters={"label": wanted}):
            lease = container.labels.get(LEASE, "")
            if lease not in live:
                _remove(container)
                removed.add(lease)
        for folder in folders:
            SandboxFolder(folder).remove()
            removed.add(folder.name)
        return sorted(removed)

    def close(self) -> None:
        """See SandboxBackend."""
        self._engine.close()

    def _container(self, order: OpenTrajectory, where: SandboxFolder, name: str) -> Container:
        from docker.errors import DockerException, ImageNotFound

        labels = {**self._labels, TRAJECTORY: order.trajectory, LEASE: where.path.name}
        mounts = {
            str(self._agent): {"bind": isolation.AGENT, "mode": "ro"},
            str(where.doorway): {"bind": isolation.DOORWAY, "mode": "rw"},
        }
        try:
            return self._engine.containers.create(order.image, labels=labels, volumes=mounts, **_profile(order))
        except ImageNotFound:
            raise SandboxError(
                f"{name}: there is no image {order.image!r}. Get it with `docker pull {order.image}`, "
                "or build tangram-base:latest with `python -m compose.image`"
            ) from None
        except DockerException as error:
            raise SandboxError(f"{name} cannot be created: {error}") from None


class DockerUpdate:
    """Sizes a container through the engine, where its control group cannot be written: 17 ms instead of 0.03.

    Args:
        container: the container.
        group: its group, to read from.
    """

    def __init__(self, container: Container, group: Cgroup) -> None:
        self._container, self._group = container, group
        self._size: tuple[int, Sequence[int]] = (group.quota(), ())

    def give(self, cores: float, cpus: Sequence[int]) -> None:
        """See CpuControl."""
        self._update(max(IDLE_US, round(cores * PERIOD_US)), cpus)

    def idle(self) -> None:
        """See CpuControl."""
        self._update(IDLE_US, ())

    def weigh(self, qos: Qos) -> None:
        """See CpuControl."""
        self._ask(cpu_shares=SHARES[qos])

    def reassert(self) -> int:
        """See CpuControl. Only CPU time is looked at."""
        if self._group.quota() == self._size[0]:
            return 0
        self._update(*self._size)
        return 1

    def oom_kills(self) -> int:
        """See CpuControl."""
        return self._group.oom_kills()

    def _update(self, quota: int, cpus: Sequence[int]) -> None:
        self._ask(cpu_period=PERIOD_US, cpu_quota=quota, cpuset_cpus=",".join(map(str, cpus)) or None)
        self._size = (quota, cpus)

    def _ask(self, **settings: Any) -> None:
        from docker.errors import DockerException

        try:
            self._container.update(**settings)
        except DockerException as error:
            raise SandboxError(f"container {self._container.short_id} cannot be resized: {error}") from None


def connect() -> DockerClient:
    """Return a client of the Docker engine. Raises ConfigurationError saying what is missing."""
    try:
        import docker
        from docker.errors import DockerException
    except ImportError:
        raise ConfigurationError("the docker package is missing: install tangram-rl[docker]") from None
    try:
        engine = docker.from_env(timeout=_ENGINE_TIME)
        engine.ping()
    except DockerException as error:
        raise ConfigurationError(
            f"the Docker engine does not answer ({error}): start it, or set DOCKER_HOST, or join its group"
        ) from None
    return engine


def _profile(order: OpenTrajectory) -> dict[str, Any]:
    memory = f"{order.memory}m"
    owner = f"uid={isolation.SANDBOX_UID},gid={isolation.SANDBOX_UID}"
    return {
        "entrypoint": isolation.agent_command(
            "python3", f"{isolation.DOORWAY}/{SOCKET}", isolation.WORK, isolation.SANDBOX_UID
        ),
        "command": [],
        "user": "0:0",
        "cap_drop": ["ALL"],
        "cap_add": list(isolation.AGENT_CAPABILITIES),
        "security_opt": ["no-new-privileges:true"],
        "network_mode": order.network,
        "hostname": "sandbox",
        "environment": {"HOME": isolation.WORK, "USER": "sandbox"},
        "mem_limit": memory,
        "memswap_limit": memory,
        "pids_limit": isolation.PIDS,
        "log_config": {"Type": "none"},
        "read_only": True,
        "tmpfs": {
            isolation.WORK: f"rw,exec,size={isolation.work_mib(order.memory)}m,mode=755,{owner}",
            "/tmp": f"rw,exec,size={isolation.tmp_mib(order.memory)}m,mode=1777",
        },
        "working_dir": "/",
    }


def _start(container: Container, image: str, name: str) -> None:
    from docker.errors import DockerException

    try:
        container.start()
    except DockerException as error:
        hint = f"; image {image!r} needs a python3" if "python3" in str(error) else ""
        raise SandboxError(f"{name} cannot be started: {error}{hint}") from None


def _why_dead(container: Container) -> str:
    container.reload()
    state = container.attrs["State"]
    return "" if state["Running"] else f"its agent ended with {state['ExitCode']} {state['Error']}".strip()


def _control(container: Container) -> CpuControl:
    container.reload()
    group = find(container.attrs["State"]["Pid"], must_contain=container.id or "")
    try:
        group = own_leaf(group)
    except SandboxError as error:
        logger.warning(
            "container %s may lose its size to systemd for a second at a time: %s", container.short_id, error
        )
    return group if group.writable() else DockerUpdate(container, group)


def _remove(container: Container) -> None:
    from docker.errors import DockerException, NotFound

    try:
        container.remove(force=True, v=True)
    except NotFound:
        return
    except DockerException as error:
        if "already in progress" not in str(error):
            raise SandboxError(f"container {container.short_id} cannot be removed: {error}") from None
