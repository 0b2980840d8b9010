"""Two RL jobs on one cluster: a heavy one and a light one, alike but for their number of trajectories."""

from __future__ import annotations

from dataclasses import replace

from compose.simulate.work import Plan, Turn, Workload
from compose.simulate.workloads import coding

#: What each job does, and the machines of both.
BASE = "coding-tight"
#: One trajectory of so many is the light job's.
LIGHT_SHARE = 8
#: Name of the workload to the jobs in it; those with one show what the other one costs it.
JOBS = {"two-jobs": ("heavy", "light"), "heavy-job": ("heavy",), "light-job": ("light",)}


def draw(name: str, batch: int, seed: int, malleable_share: float) -> Workload:
    """Draw a batch; "heavy-job" and "light-job" are what "two-jobs" has of either, with the same draws."""
    light = max(1, batch // LIGHT_SHARE)
    drawn = coding.draw(BASE, batch, seed, malleable_share)
    parts = {"light": drawn.plans[:light], "heavy": drawn.plans[light:]}
    plans = tuple(_of_job(job, plan) for job in JOBS[name] for plan in parts[job])
    return Workload(name, plans, pod=drawn.pod)


def _of_job(job: str, plan: Plan) -> Plan:
    turns = tuple(
        Turn(turn.gap, tuple(replace(work, task=f"{job} {work.task}") for work in turn.actions)) for turn in plan.turns
    )
    return replace(plan, turns=turns, job=job)
