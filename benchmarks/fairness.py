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

SEEDS = range(1, 6)
POLICIES = ("paper", "paper_wait", "live")
REACH = 1.3


def slowdown(policy: str, job: str) -> float:
    """Return how many times as long the job's actions take beside the other."""
    ratios = []
    for seed in SEEDS:
        both, alone = (_act(policy, workload, job, seed) for workload in ("two-jobs", f"{job}-job"))
        ratios.append(both / alone)
    return geometric_mean(ratios)


def _act(policy: str, workload: str, job: str, seed: int) -> float:
    source = find(workload)
    drawn = source.draw(workload, source.batch, seed, 1.0)
    outcome = simulate(policy, source.cluster(source.batch), drawn, Costs(), seed)
    return fmean(row.act for row in outcome.finished if row.task.startswith(job))


def run() -> dict[str, Any]:
    """Measure it for `live`, the policy that shares by job, and for others."""
    rows = {policy: {job: round(slowdown(policy, job), 2) for job in ("light", "heavy")} for policy in POLICIES}
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
