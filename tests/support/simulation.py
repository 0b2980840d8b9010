"""Short ways to write simulated batches."""

from __future__ import annotations

from collections.abc import Sequence

from compose.simulate.cluster import Cluster, CpuNodes, GpuNodes
from compose.simulate.machines import Costs
from compose.simulate.work import Plan, Turn, Work, Workload

FREE = Costs(cpu=0, gpu=0, api=0, sandbox=0)


def tool(duration: int, task: str = "tool") -> Work:
    """Return a rigid action of one core."""
    return Work(task, "cpu", (1,), (duration,))


def elastic(duration: int, sizes: Sequence[int] = (1, 2, 4), *, malleable: bool = False) -> Work:
    """Return an action that is perfectly parallel; `duration` is on one core."""
    return Work("reward", "cpu", tuple(sizes), tuple(duration // size for size in sizes), malleable)


def plan(name: str, *turns: tuple[int, Work], start: int = 0, memory: int | None = 1) -> Plan:
    """Return a trajectory with one action per turn, each after its gap."""
    return Plan(name, tuple(Turn(gap, (work,)) for gap, work in turns), start, memory)


def workload(*plans: Plan, **rest: object) -> Workload:
    """Return a batch."""
    return Workload("test", plans, **rest)  # type: ignore[arg-type]  # fields of Workload by name


def cpu(cores: int, nodes: int = 1) -> Cluster:
    """Return CPU nodes."""
    return Cluster(cpu=(CpuNodes(count=nodes, cores=cores, memory_mib=1000),))


def gpu(gpus: int, nodes: int = 1) -> Cluster:
    """Return GPU nodes."""
    return Cluster(gpu=(GpuNodes(count=nodes, gpus=gpus),))
