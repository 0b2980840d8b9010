"""The machines of a simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from scheduler.core.domain import API_PREFIX, CPU, MEMORY
from scheduler.core.events import NodeJoined
from scheduler.core.gpu_node import GPU
from scheduler.core.quota import Quota


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CpuNodes(_Model):
    """Equal CPU nodes.

    Args:
        count: how many.
        cores: of each.
        memory_mib: of each, for sandboxes.
    """

    count: int = Field(default=1, ge=1)
    cores: int = Field(default=256, ge=1)
    memory_mib: int = Field(default=2_400_000, ge=0)


class GpuNodes(_Model):
    """Equal GPU nodes.

    Args:
        count: how many.
        gpus: devices of each.
    """

    count: int = Field(default=1, ge=1)
    gpus: int = Field(default=8, ge=1)


class Provider(_Model):
    """One API provider.

    Args:
        concurrency: calls in flight.
        per_second: calls started per second on average; none is unlimited.
        burst: calls that may start at once when the bucket is full.
    """

    concurrency: int = Field(ge=1)
    per_second: float | None = Field(default=None, gt=0)
    burst: int = Field(default=1, ge=1)

    @property
    def quota(self) -> Quota:
        """The same in the core's words."""
        return Quota(self.concurrency, self.per_second, self.burst)


class Cluster(_Model):
    """What there is to share out; also the form of a cluster file in TOML or YAML.

    Args:
        cpu: groups of CPU nodes.
        gpu: groups of GPU nodes.
        providers: APIs by name.
    """

    cpu: tuple[CpuNodes, ...] = ()
    gpu: tuple[GpuNodes, ...] = ()
    providers: Mapping[str, Provider] = Field(default_factory=dict)

    def joins(self, services: Iterable[str]) -> Iterator[NodeJoined]:
        """Return the events with which its nodes announce themselves at time 0; every GPU node holds all services."""
        held = tuple(services)
        for place, cores, memory in self._cpu_nodes():
            yield NodeJoined(0, f"cpu-{place}", "cpu", {CPU: cores, MEMORY: memory})
        for name, gpus in self.devices().items():
            yield NodeJoined(0, name, "gpu", {GPU: gpus}, services=held)
        if self.providers:
            quotas = {name: provider.quota for name, provider in self.providers.items()}
            yield NodeJoined(0, "api-0", "api", quotas=quotas)

    def devices(self) -> dict[str, int]:
        """Return the devices of each GPU node, by its name."""
        counts = [group.gpus for group in self.gpu for _ in range(group.count)]
        return {f"gpu-{place}": gpus for place, gpus in enumerate(counts)}

    def capacity(self) -> Counter[str]:
        """Return the units of every key resource; for an API, calls in flight."""
        units = Counter({CPU: sum(cores for _, cores, _ in self._cpu_nodes()), GPU: sum(self.devices().values())})
        units.update({API_PREFIX + name: provider.concurrency for name, provider in self.providers.items()})
        return +units

    def resized(self, nodes: int) -> Self:
        """Return the cluster with so many nodes like the first one: CPU nodes if it has any, else GPU nodes."""
        kind = "cpu" if self.cpu else "gpu"
        group: CpuNodes | GpuNodes = (self.cpu or self.gpu)[0]
        return self.model_copy(update={kind: (group.model_copy(update={"count": nodes}),)})

    def _cpu_nodes(self) -> Iterator[tuple[int, int, int]]:
        rows = [(group.cores, group.memory_mib) for group in self.cpu for _ in range(group.count)]
        return ((place, cores, memory) for place, (cores, memory) in enumerate(rows))
