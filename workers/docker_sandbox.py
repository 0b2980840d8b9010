"""Sandboxes as Docker containers: one per trajectory, with our agent as its first process."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tangram_tasks.action import Qos
from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.errors import SandboxError
from workers import isolation
from workers.agent_archive import write_agent
from workers.cgroups import IDLE_US, PERIOD_US, SHARES, Cgroup, find
from workers.docker_engine import connect, engine_errors, is_running, remove_container
from workers.docker_network import switch_network
from workers.exec_client import KEEP_ALIVE, ExecClient
from workers.image_prefetch import prefetch
from workers.live_sandbox import CpuControl, LiveSandbox, SandboxClient
from workers.sandbox_folder import SOCKET, SandboxFolder, SandboxRecord, sandbox_name
from workers.scope_leaf import own_leaf

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

logger = logging.getLogger(__name__)

OWNER, NODE, TRAJECTORY, LEASE = "tangram.owner", "tangram.node", "tangram.trajectory", "tangram.lease"
_ADOPT_TIME = 5.0  # s that the agent of an idle sandbox gets to answer


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
        name = sandbox_name(order.trajectory, self._node)
        with contextlib.ExitStack() as undo:
            where.create()
            undo.callback(where.remove)
            container = self._container(order, where, name, _profile(order))
            undo.callback(remove_container, container)
            if _start(container, order.image, name):
                client: SandboxClient = where.admit(name, lambda: _why_dead(container))
            else:
                container = self._container(order, where, name, _profile(order) | {"entrypoint": list(KEEP_ALIVE)})
                undo.callback(remove_container, container)
                if not _start(container, order.image, name):
                    raise SandboxError(f"{name}: image {order.image!r} has no python3, and no sleep either")
                client = _exec_client(order, container, name)
            undo.callback(client.close)
            sandbox = _live(self._engine, order, where, container, client)
            undo.pop_all()
        return sandbox

    def adopt(self, record: SandboxRecord, folder: Path) -> LiveSandbox | None:
        """See SandboxBackend. A container that was started again meanwhile has lost its files."""
        where = SandboxFolder(folder)
        found = self._find({LEASE: folder.name})
        if len(found) != 1 or not is_running(found[0]) or _stamp(found[0]) != record.stamp:
            return None
        with contextlib.ExitStack() as undo:
            name = sandbox_name(record.order.trajectory, self._node)
            client = _exec_client(record.order, found[0], name) if _is_agentless(found[0]) else where.client(name)
            undo.callback(client.close)
            if not client.answers(_ADOPT_TIME):
                return None
            sandbox = _live(self._engine, record.order, where, found[0], client)
            undo.pop_all()
        return sandbox

    def sweep(self, folders: list[Path], live: set[str]) -> list[str]:
        """See SandboxBackend. Also finds containers whose folder is gone."""
        removed = set()
        for container in self._find({}):
            lease = container.labels.get(LEASE, "")
            if lease not in live:
                remove_container(container)
                removed.add(lease)
        for folder in folders:
            SandboxFolder(folder).remove()
            removed.add(folder.name)
        return sorted(removed)

    def prefetch(self, images: Sequence[str]) -> list[str]:
        """See SandboxBackend."""
        return prefetch(self._engine, images)

    def close(self) -> None:
        """See SandboxBackend."""
        self._engine.close()

    def _find(self, more: dict[str, str]) -> list[Container]:
        wanted = [f"{label}={value}" for label, value in (self._labels | more).items()]
        try:
            return self._engine.containers.list(all=True, ignore_removed=True, filters={"label": wanted})
        except engine_errors() as error:
            raise SandboxError(f"node {self._node} cannot list its containers: {error}") from None

    def _container(self, order: OpenTrajectory, where: SandboxFolder, name: str, profile: dict[str, Any]) -> Container:
        from docker.errors import ImageNotFound

        labels = {**self._labels, TRAJECTORY: order.trajectory, LEASE: where.path.name}
        mounts = {
            **{source: {"bind": target, "mode": "ro"} for source, target in order.mounts.items()},
            str(self._agent): {"bind": isolation.AGENT, "mode": "ro"},
            str(where.doorway): {"bind": isolation.DOORWAY, "mode": "rw"},
        }
        try:
            return self._engine.containers.create(order.image, labels=labels, volumes=mounts, **profile)
        except ImageNotFound:
            raise SandboxError(
                f"{name}: there is no image {order.image!r}. Get it with `docker pull {order.image}`, "
                "or build tangram-base:latest with `python -m compose.image`"
            ) from None
        except engine_errors() as error:
            raise SandboxError(f"{name} cannot be created: {error}") from None


def _live(
    engine: DockerClient, order: OpenTrajectory, where: SandboxFolder, container: Container, client: SandboxClient
) -> LiveSandbox:
    control = _control(container)
    control.idle()

    def dispose() -> None:
        remove_container(container)
        where.remove()

    return LiveSandbox(
        trajectory=order.trajectory,
        lease=where.path.name,
        env=order.env,
        client=client,
        control=control,
        connect=partial(switch_network, engine, container),
        dispose=dispose,
        stamp=_stamp(container),
        agentless=_is_agentless(container),
    )


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

    def reclaim(self, go_on: Callable[[], bool]) -> None:
        """See CpuControl."""
        self._group.reclaim(go_on)

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
        try:
            self._container.update(**settings)
        except engine_errors() as error:
            raise SandboxError(f"container {self._container.short_id} cannot be resized: {error}") from None


def _profile(order: OpenTrajectory) -> dict[str, Any]:
    memory = f"{order.memory}m"
    uid = order.user or isolation.SANDBOX_UID
    owner = f"uid={uid},gid={uid}"
    return {
        "entrypoint": isolation.agent_command("python3", f"{isolation.DOORWAY}/{SOCKET}", isolation.WORK, uid),
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


def _start(container: Container, image: str, name: str) -> bool:
    """Start it. Returns False, and removes it, if the image lacks its first program."""
    try:
        container.start()
    except engine_errors() as error:
        if "executable file not found" not in str(error) and "no such file" not in str(error):
            raise SandboxError(f"{name} cannot be started: {error}") from None
        logger.warning("image %s lacks a program of ours; %s: %s", image, name, error)
        remove_container(container)
        return False
    return True


def _exec_client(order: OpenTrajectory, container: Container, name: str) -> ExecClient:
    logger.warning("%s has no python3 and works through docker exec, 20 times slower: %s", order.image, name)
    is_running(container)
    group = find(container.attrs["State"]["Pid"], must_contain=container.id or "")
    return ExecClient(container, group, order.user or isolation.SANDBOX_UID, name)


def _is_agentless(container: Container) -> bool:
    return bool(container.attrs["Config"]["Entrypoint"] == list(KEEP_ALIVE))


def _why_dead(container: Container) -> str:
    if is_running(container):
        return ""
    state = container.attrs["State"]
    return f"its agent ended with {state['ExitCode']} {state['Error']}".strip()


def _stamp(container: Container) -> str:
    return str(container.attrs["State"]["StartedAt"])


def _control(container: Container) -> CpuControl:
    is_running(container)  # its process id must be of now
    group = find(container.attrs["State"]["Pid"], must_contain=container.id or "")
    try:
        group = own_leaf(group)
    except SandboxError as error:
        logger.warning(
            "container %s may lose its size to systemd for a second at a time: %s", container.short_id, error
        )
    return group if group.writable() else DockerUpdate(container, group)
