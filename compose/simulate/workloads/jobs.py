"""Two RL jobs on one cluster: a heavy one and a light one, alike but for their number of trajectories."""

from __future__ import annotations

from dataclasses import replace

from compose.simulate.work import Plan, Turn, Workload
from compose.simulate.workloads import coding

#: What each job does, and the machines of both.
BASE = "coding-tight"
#: One trajectory of so many is the light job's.
LIGHT_SHARE = 8


def draw(name: str, batch: int, seed: int, malleable_share: float) -> Workload:
    """Draw a batch of both jobs, "heavy" and "light"."""
    light = max(1, batch // LIGHT_SHARE)
    drawn = coding.draw(BASE, batch, seed, malleable_share)
    plans = [_of_job("heavy" if place >= light else "light", plan) for place, plan in enumerate(drawn.plans)]
    return Workload(name, tuple(plans), pod=drawn.pod)


def alone(both: Workload, job: str) -> Workload:
    """Return what one of the jobs does, without the other."""
    return replace(both, plans=tuple(plan for plan in both.plans if plan.job == job))


def _of_job(job: str, plan: Plan) -> Plan:
    turns = tuple(
        Turn(turn.gap, tuple(replace(work, task=f"{job} {work.task}") for work in turn.actions)) for turn in plan.turns
    )
    return replace(plan, turns=turns, job=job)
