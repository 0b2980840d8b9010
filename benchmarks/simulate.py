"""How fast the simulator is: policy "paper" on the coding workload, 15 nodes of 256 cores.

It is one thread without I/O, so CPU time is what counts: on a shared box wall time says more about the neighbours.
"""

from __future__ import annotations

import json
import time
from statistics import median
from typing import Any

import click

from benchmarks.machine import machine
from compose.simulate.machines import Costs
from compose.simulate.policies import simulate
from compose.simulate.workloads.registry import find

WORKLOAD, BATCH, POLICY = "coding", 1536, "paper"
ROUNDS = 5
REACH = 20_000


def run() -> dict[str, Any]:
    """Measure it; actions per second of CPU time, drawing the batch not included."""
    source = find(WORKLOAD)
    cluster = source.cluster(BATCH)
    speeds, actions = [], 0
    for seed in range(1, ROUNDS + 1):
        batch = source.draw(WORKLOAD, BATCH, seed, 1.0)
        began = time.process_time()
        simulate(POLICY, cluster, batch, Costs())
        speeds.append(batch.actions / (time.process_time() - began))
        actions += batch.actions
    value = median(speeds)
    return {
        "name": "simulate",
        "value": round(value),
        "unit": "actions per CPU second",
        "reach": f">= {REACH}",
        "holds": value >= REACH,
        "n": actions,
        "spread": {"min": round(min(speeds)), "max": round(max(speeds))},
        "machine": machine(),
        "detail": {"workload": WORKLOAD, "trajectories": BATCH, "policy": POLICY, "capacity": cluster.capacity()},
    }


if __name__ == "__main__":
    click.echo(json.dumps(run(), indent=2))
