"""How much slower a light RL job is beside a heavy one on the same cluster, in virtual time.

The slowdown is the mean ACT of a job's actions beside the other job against the same actions alone; geometric mean
over the seeds.
"""

from __future__ import annotations

import json
from statistics import fmean, geometric_mean
from typing import Any

import click

from benchmarks.machine import machine
from compose.simulate.cluster import Cluster
from compose.simulate.machines import Costs
from compose.simulate.policies import simulate
from compose.simulate.work import Workload
from compose.simulate.workloads.jobs import alone
from compose.simulate.workloads.registry import find

SEEDS = range(1, 4)
POLICIES = ("paper", "live")
JOBS = ("light", "heavy")
REACH = 1.3


def slowdowns(policy: str) -> dict[str, float]:
    """Return how many times as long each job's actions take beside the other."""
    source = find("two-jobs")
    cluster = source.cluster(source.batch)
    ratios: dict[str, list[float]] = {job: [] for job in JOBS}
    for seed in SEEDS:
        both = source.draw(source.name, source.batch, seed, 1.0)
        beside = _acts(policy, cluster, both)
        for job in JOBS:
            ratios[job].append(beside[job] / _acts(policy, cluster, alone(both, job))[job])
    return {job: round(geometric_mean(rows), 2) for job, rows in ratios.items()}


def _acts(policy: str, cluster: Cluster, batch: Workload) -> dict[str, float]:
    """Return the mean ACT of each job that is there, ms."""
    rows = simulate(policy, cluster, batch, Costs()).finished
    acts = {job: [row.act for row in rows if row.task.startswith(job)] for job in JOBS}
    return {job: fmean(found) for job, found in acts.items() if found}


def run() -> dict[str, Any]:
    """Measure it for `live`, which shares by job, and for `paper`."""
    rows = {policy: slowdowns(policy) for policy in POLICIES}
    value = rows["live"]["light"]
    return {
        "name": "fairness",
        "value": value,
        "unit": "x mean ACT of the light job alone",
        "reach": f"<= {REACH}",
        "holds": value <= REACH,
        "n": len(SEEDS),
        "spread": {},
        "machine": machine(),
        "detail": rows,
    }


if __name__ == "__main__":
    click.echo(json.dumps(run(), indent=2))
