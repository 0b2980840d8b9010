"""Policies by name, and one run of one of them."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from compose.simulate.cluster import Cluster, GpuNodes
from compose.simulate.direct import DirectCalls
from compose.simulate.driven import Scheduler
from compose.simulate.engine import Engine
from compose.simulate.machines import Costs
from compose.simulate.outcome import Outcome
from compose.simulate.static import StaticScheduler
from compose.simulate.work import Workload
from scheduler.core.admission import Admission
from scheduler.core.domain import GPU
from scheduler.core.policy import make_policy
from tangram_tasks.errors import ConfigurationError, Infeasible

#: Waiting actions that a decision may look at.
DEPTH = 16


def check(policy: str) -> None:
    """Raise ConfigurationError unless the name is "static", "static:CORES", "direct", or a policy of the core."""
    kind, _, size = policy.partition(":")
    if kind == "static" and (not size or (size.isdigit() and int(size) > 0)):
        return
    if policy == "direct":
        return
    try:
        make_policy(policy, DEPTH)
    except ValueError as error:
        raise ConfigurationError(f"{error}; the simulator also has static, static:CORES and direct") from None


def simulate(policy: str, cluster: Cluster, workload: Workload, costs: Costs, seed: int = 0) -> Outcome:
    """Run one batch.

    Args:
        policy: "static" or "static:CORES": a pod per trajectory, dedicated devices per service, ungated API calls;
            "direct": ungated API calls, "paper" for the rest; any other: the core's policy of that name on CPUs and
            GPUs, but "live" means "residency" on GPUs.
        cluster: the machines; "static" gets as many GPU nodes as its dedicated devices need.
        workload: the batch.
        costs: what the machinery adds; "static" has no sizing to pay for.
        seed: of the back-off of refused API calls.

    Raises:
        ConfigurationError: there is no such policy.
        Infeasible: the batch does not fit the cluster.
    """
    check(policy)
    kind, _, size = policy.partition(":")
    if kind == "static":
        return _static(cluster, workload, replace(costs, cpu=0), seed, int(size) if size else workload.pod)
    name = "paper" if kind == "direct" else policy
    core = Admission(name, DEPTH, gpu_policy="residency" if name == "live" else name, instant_resize=True)
    scheduler: Scheduler = DirectCalls(core) if kind == "direct" else core
    return Engine(scheduler, cluster, workload, costs, seed=seed).run()


def _static(cluster: Cluster, workload: Workload, costs: Costs, seed: int, pod: int) -> Outcome:
    group, services = workload.static_gpus, len(workload.restores)
    there = sum(gpus // group for gpus in cluster.devices().values())
    replicas = max(1, there // services) if services else 0
    if there < replicas * services:
        per_node = cluster.gpu[0].gpus // group if cluster.gpu else 0
        if per_node == 0:
            raise Infeasible(f"no GPU node has the {group} devices that a static deployment dedicates to a service")
        cluster = cluster.model_copy(
            update={"gpu": (GpuNodes(count=ceil(services / per_node), gpus=cluster.gpu[0].gpus),)}
        )
    scheduler = DirectCalls(StaticScheduler(pod, group, replicas))
    outcome = Engine(scheduler, cluster, workload, costs, seed=seed, pod=pod).run()
    if services:
        outcome.capacity = {**outcome.capacity, GPU: group * services * replicas}
        outcome.reserved[GPU] = outcome.capacity[GPU] * outcome.step
    return outcome
