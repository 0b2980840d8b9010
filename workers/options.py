"""What a node process is told at its start, as JSON in `TANGRAM_NODE`."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Annotated, Literal

import redis
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tangram_tasks.errors import ConfigurationError
from tangram_tasks.keys import Keys
from tangram_tasks.provider import Provider
from tangram_tasks.settings import Settings, broker_url
from workers.node import Node

logger = logging.getLogger(__name__)

VARIABLE = "TANGRAM_NODE"


class _Options(BaseModel):
    """What all nodes are told: name, who owns their containers, threads that run actions (None: by capacity)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    owner: str = "tangram"
    concurrency: int | None = Field(default=None, gt=0)


class CpuOptions(_Options):
    """A CPU node: see `workers.cpu_node.CpuNode`."""

    kind: Literal["cpu"] = "cpu"
    cores: float | None = None
    memory_mib: int | None = None
    backend: Literal["auto", "docker", "bubblewrap", "local"] = "auto"
    warm: dict[str, int | dict[int, int]] = {}
    warm_memory_mib: int = 512
    mount_roots: tuple[Path, ...] = ()
    images: tuple[str, ...] = ()
    pause_after: float | None = None

    def build(self, config: Settings) -> Node:
        """Make the node, take over what an earlier process of this name left alive, and remove the rest."""
        from workers.cpu_node import CpuNode
        from workers.cpu_worker import CpuWorker
        from workers.sandbox_policy import SandboxPolicy

        node = CpuNode(
            node=self.name,
            owner=self.owner,
            state_dir=config.state_dir,
            cores=self.cores,
            cpu_unit=config.cpu_unit,
            memory_mib=self.memory_mib,
            backend=self.backend,
            unsafe_local=config.unsafe_local,
            policy=SandboxPolicy(
                warm=self.warm,
                warm_memory_mib=self.warm_memory_mib,
                mount_roots=self.mount_roots,
                images=self.images,
                pause_after=self.pause_after,
            ),
        )
        adopted = node.adopt()
        if adopted:
            logger.warning("node %s takes over the sandboxes of %d trajectories", self.name, len(adopted))
        node.sweep()
        node.prefetch()
        return CpuWorker(self.name, node)


class GpuOptions(_Options):
    """A GPU node: see `workers.gpu_node.GpuNode`."""

    kind: Literal["gpu"] = "gpu"
    services: tuple[str, ...] = ("minilm", "smollm2")
    devices: int | None = None
    budget_mib: int | None = None
    link_gbps: float | None = None
    threads: int | None = Field(default=None, gt=0)
    page_out: Literal["queue_aware", "lru"] = "queue_aware"
    cells: tuple[tuple[int, ...], ...] | None = None
    overlap: bool = False
    host_budget_mib: int | None = None

    def build(self, config: Settings) -> Node:
        """Load the services and make the node."""
        from workers.gpu_node import GpuNode
        from workers.gpu_worker import GpuWorker

        node = GpuNode(
            node=self.name,
            state_dir=config.state_dir,
            services=self.services,
            devices=self.devices,
            budget_mib=self.budget_mib,
            link_gbps=self.link_gbps,
            threads=self.threads,
            page_out=self.page_out,
            cells=self.cells,
            overlap=self.overlap,
            host_budget_mib=self.host_budget_mib,
        )
        return GpuWorker(self.name, node)


class ApiOptions(_Options):
    """An API node: its providers by name."""

    kind: Literal["api"] = "api"
    providers: dict[str, Provider] = {}

    def build(self, config: Settings) -> Node:
        """Make the node. Raises ConfigurationError if a key is missing."""
        from workers.api_node import ApiNode

        client = redis.Redis.from_url(broker_url(config), socket_timeout=30, socket_connect_timeout=5)
        return ApiNode(self.name, self.providers, client, Keys(config.prefix))


NodeOptions = Annotated[CpuOptions | GpuOptions | ApiOptions, Field(discriminator="kind")]


def from_environment(kind: str) -> CpuOptions | GpuOptions | ApiOptions:
    """Read this process's options. Raises ConfigurationError naming what is wrong."""
    adapter: TypeAdapter[CpuOptions | GpuOptions | ApiOptions] = TypeAdapter(NodeOptions)
    try:
        given = TypeAdapter(dict[str, object]).validate_json(os.environ.get(VARIABLE) or "{}")
        return adapter.validate_python({"name": f"{kind}-{socket.gethostname()}", **given, "kind": kind})
    except ValidationError as error:
        rows = "; ".join(f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors())
        raise ConfigurationError(f"{VARIABLE}: {rows}") from None
