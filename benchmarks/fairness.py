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
from compose.simulate.machines import Costs
from compose.simulate.policies import simulate
from compose.simulate.workloads.registry import find

SEEDS = range(1, 4)
POLICIES = ("paper", "live")
JOBS = ("light", "heavy")
REACH = 1.3


def slowdowns(policy: str) -> dict[str, float]:
    """Return how many times as long each job's actions take beside the other."""
    ratios: dict[str, list[float]] = {job: [] for job in JOBS}
    for seed in SEEDS:
        both = _acts(policy, "two-jobs", seed)
        for job in JOBS:
            ratios[job].append(both[job] / _acts(policy, f"{job}-job", seed)[job])
    return {job: round(geometric_mean(rows), 2) for job, rows in ratios.items()}


def _acts(policy: str, workload: str, seed: int) -> dict[str, float]:
    """Return the mean ACT of each job that is there, ms."""
    source = find(workload)
    drawn = source.draw(workload, source.batch, seed, 1.0)
    rows = simulate(policy, source.cluster(source.batch), drawn, Costs(), seed).finished
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
