"""The machines of a simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, Field

from scheduler.core.domain import API_PREFIX, CPU, GPU, MEMORY
from scheduler.core.events import NodeJoined, Quota


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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
    """What there is to share out.

    Args:
        nodes: CPU nodes.
        cores: of each.
        memory_mib: of each, for sandboxes.
        gpu_nodes: GPU nodes.
        gpus: devices of each.
        providers: APIs by name.
    """

    nodes: int = Field(default=0, ge=0)
    cores: int = Field(default=256, ge=1)
    memory_mib: int = Field(default=2_400_000, ge=0)
    gpu_nodes: int = Field(default=0, ge=0)
    gpus: int = Field(default=8, ge=1, le=8)
    providers: Mapping[str, Provider] = Field(default_factory=dict)

    def joins(self) -> Iterator[NodeJoined]:
        """Return the events with which its nodes announce themselves at time 0."""
        for place in range(self.nodes):
            yield NodeJoined(0, f"cpu-{place}", "cpu", {CPU: self.cores, MEMORY: self.memory_mib})
        for place in range(self.gpu_nodes):
            yield NodeJoined(0, f"gpu-{place}", "gpu", {GPU: self.gpus})
        if self.providers:
            quotas = {name: provider.quota for name, provider in self.providers.items()}
            yield NodeJoined(0, "api-0", "api", quotas=quotas)

    def capacity(self) -> Counter[str]:
        """Return the units of every key resource; for an API, calls in flight."""
        units = Counter({CPU: self.nodes * self.cores, GPU: self.gpu_nodes * self.gpus})
        units.update({API_PREFIX + name: provider.concurrency for name, provider in self.providers.items()})
        return +units
