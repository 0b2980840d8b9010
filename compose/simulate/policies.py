"""Policies by name, and one run of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compose.simulate.cluster import Cluster, GpuNodes
from compose.simulate.direct import DirectCalls
from compose.simulate.driven import Scheduler
from compose.simulate.engine import Engine
from compose.simulate.machines import Costs
from compose.simulate.outcome import Outcome
from compose.simulate.static import StaticScheduler
from compose.simulate.work import Workload
from scheduler.core.admission import Admission
from scheduler.core.gpu_node import GPU
from tangram_tasks.errors import ConfigurationError, Infeasible

#: Waiting actions that a decision may look at.
DEPTH = 16


def check(policy: str) -> None:
    """Raise ConfigurationError unless the name is "static", "direct" or a policy of the core; see `simulate`."""
    kind, *sizes = policy.split(":")
    if kind == "static" and len(sizes) <= 2 and all(size.isdigit() and int(size) > 0 for size in sizes):
        return
    if policy == "direct":
        return
    try:
        _core(policy)
    except ValueError as error:
        raise ConfigurationError(
            f"{error}; the simulator also has static, static:CORES, static:CORES:GPUS and direct"
        ) from None


def simulate(policy: str, cluster: Cluster, workload: Workload, costs: Costs, seed: int = 0) -> Outcome:
    """Run one batch.

    Args:
        policy: "static", "static:CORES" or "static:CORES:GPUS": a pod per trajectory, dedicated devices per service
            (as many as it needs, if that is more), ungated API calls;
            "direct": ungated API calls, "paper" for the rest; any other: the core's policy of that name on CPUs and
            GPUs, but "live" means "residency" on GPUs, and the other way round on CPUs.
        cluster: the machines; "static" gets as many GPU nodes as its dedicated devices need.
        workload: the batch.
        costs: what the machinery adds; "static" has no sizing to pay for.
        seed: of the back-off of refused API calls.

    Raises:
        ConfigurationError: there is no such policy.
        Infeasible: the batch does not fit the cluster.
    """
    check(policy)
    kind, *sizes = policy.split(":")
    if kind == "static":
        pod, group, *_ = [*map(int, sizes), *(workload.pod, workload.static_gpus)[len(sizes) :]]
        return _static(cluster, workload, replace(costs, cpu=0), seed, pod, group)
    name = "paper" if kind == "direct" else policy
    core = _core(name)
    scheduler: Scheduler = DirectCalls(core) if kind == "direct" else core
    return Engine(scheduler, cluster, workload, costs, seed=seed).run()


def _core(name: str) -> Admission:
    cpu, gpu = ("live", "residency") if name in ("live", "residency") else (name, name)
    return Admission(cpu, DEPTH, gpu_policy=gpu, instant_resize=True)


def _static(cluster: Cluster, workload: Workload, costs: Costs, seed: int, pod: int, group: int) -> Outcome:
    groups = {service: max(group, least) for service, least in workload.least_gpus().items()}
    dedicated = sum(groups.values())
    replicas = max(1, sum(cluster.devices().values()) // dedicated) if dedicated else 0
    if dedicated and replicas == 1:
        cluster = cluster.model_copy(update={"gpu": (_enough(cluster, groups),)})
    scheduler = DirectCalls(StaticScheduler(pod, groups, replicas))
    outcome = Engine(scheduler, cluster, workload, costs, seed=seed, pod=pod).run()
    if dedicated:
        outcome.capacity = {**outcome.capacity, GPU: dedicated * replicas}
        outcome.reserved[GPU] = outcome.capacity[GPU] * outcome.step
    return outcome


def _enough(cluster: Cluster, groups: Mapping[str, int]) -> GpuNodes:
    """Return as many nodes like the cluster's as the widest-first filling of one after the other takes."""
    gpus = max(cluster.devices().values(), default=0)
    left, nodes = sorted(groups.values(), reverse=True), 0
    if not left or left[0] > gpus:
        raise Infeasible(f"no GPU node has the {max(left)} devices that a static deployment dedicates to a service")
    while left:
        room, waiting = gpus, []
        for group in left:
            if group <= room:
                room -= group
            else:
                waiting.append(group)
        left, nodes = waiting, nodes + 1
    return GpuNodes(count=nodes, gpus=gpus)
