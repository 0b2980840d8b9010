"""The figures of simulated runs, and how policies compare on the same draws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, geometric_mean, pstdev

from pydantic import BaseModel, ConfigDict

from compose.simulate.outcome import Finished, Outcome
from monitoring.report import Spread


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskFigures(_Model):
    """One kind of action; times in seconds.

    Args:
        n: how many ran.
        act: completion time, which is queue + overhead + exec.
        queue_s: mean wait.
        overhead_s: mean time between grant and start.
        exec_s: mean time of the body.
        units: mean units held, over time held.
    """

    n: int
    act: Spread
    queue_s: float
    overhead_s: float
    exec_s: float
    units: float

    @classmethod
    def of(cls, rows: Sequence[Finished]) -> TaskFigures:
        """Sum up the actions, of which there is at least one."""
        busy = sum(row.overhead + row.execution for row in rows)
        return cls(
            n=len(rows),
            act=Spread.of(row.act / 1000 for row in rows),
            queue_s=fmean(row.queue for row in rows) / 1000,
            overhead_s=fmean(row.overhead for row in rows) / 1000,
            exec_s=fmean(row.execution for row in rows) / 1000,
            units=sum(row.held for row in rows) / busy if busy else 0.0,
        )


class Use(_Model):
    """One resource; shares are of capacity x step, 0 to 1.

    Args:
        capacity: units.
        granted: share that actions held.
        reserved: share that nobody else could have had: granted, or reserved by a trajectory or service.
    """

    capacity: int
    granted: float
    reserved: float


class Run(_Model):
    """One batch under one policy.

    Args:
        policy: its name.
        batch: trajectories.
        seed: of the draw.
        all: every action.
        tasks: by kind.
        step_s: until the last trajectory was over.
        use: by key resource.
        resizes: how often a running action got other units.
        page_ins: services brought onto devices.
        refused: API calls answered with 429.
    """

    policy: str
    batch: int
    seed: int
    all: TaskFigures
    tasks: dict[str, TaskFigures]
    step_s: float
    use: dict[str, Use]
    resizes: int
    page_ins: int
    refused: int

    @classmethod
    def of(cls, policy: str, batch: int, seed: int, outcome: Outcome) -> Run:
        """Sum up a run in which at least one action ended."""
        tasks: dict[str, list[Finished]] = defaultdict(list)
        for row in outcome.finished:
            tasks[row.task].append(row)
        return cls(
            policy=policy,
            batch=batch,
            seed=seed,
            all=TaskFigures.of(outcome.finished),
            tasks={task: TaskFigures.of(rows) for task, rows in sorted(tasks.items())},
            step_s=outcome.step / 1000,
            use={key: _use(key, outcome) for key in sorted(outcome.gauges)},
            resizes=outcome.resizes,
            page_ins=outcome.page_ins,
            refused=outcome.refused,
        )


class Ratios(_Model):
    """A policy against the reference, geometric means over the seeds; below 1 is better.

    Args:
        act: mean completion time.
        p99: of completion time.
        step: length of the step.
    """

    act: float
    p99: float
    step: float


class Row(_Model):
    """One policy on one batch size, over all seeds; times in seconds.

    Args:
        policy: its name.
        batch: trajectories.
        seeds: how many.
        act: mean of the seeds' mean completion times.
        act_spread: standard deviation of those means over the seeds.
        p50: mean of the seeds' medians.
        p99: mean of the seeds' 99th percentiles.
        queue_s: mean wait.
        overhead_s: mean overhead.
        exec_s: mean execution.
        step_s: mean step.
        use: mean shares by key resource.
        ratios: against the reference; None if that did not run.
    """

    policy: str
    batch: int
    seeds: int
    act: float
    act_spread: float
    p50: float
    p99: float
    queue_s: float
    overhead_s: float
    exec_s: float
    step_s: float
    use: dict[str, Use]
    ratios: Ratios | None


def summary(runs: Iterable[Run], reference: str = "paper") -> list[Row]:
    """Return one row per batch and policy, in the order of the runs; ratios pair equal batches and seeds."""
    groups: dict[tuple[int, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.batch, run.policy].append(run)
    return [
        _row(group, {run.seed: run for run in groups.get((batch, reference), [])})
        for (batch, _), group in list(groups.items())
    ]


def _row(runs: Sequence[Run], references: Mapping[int, Run]) -> Row:
    acts = [run.all.act.mean for run in runs]
    return Row(
        policy=runs[0].policy,
        batch=runs[0].batch,
        seeds=len(runs),
        act=fmean(acts),
        act_spread=pstdev(acts),
        p50=fmean(run.all.act.p50 for run in runs),
        p99=fmean(run.all.act.p99 for run in runs),
        queue_s=fmean(run.all.queue_s for run in runs),
        overhead_s=fmean(run.all.overhead_s for run in runs),
        exec_s=fmean(run.all.exec_s for run in runs),
        step_s=fmean(run.step_s for run in runs),
        use={key: _mean_use([run.use[key] for run in runs]) for key in runs[0].use},
        ratios=_ratios([(run, references[run.seed]) for run in runs if run.seed in references]),
    )


def _ratios(pairs: Sequence[tuple[Run, Run]]) -> Ratios | None:
    if not pairs:
        return None
    return Ratios(
        act=geometric_mean(run.all.act.mean / reference.all.act.mean for run, reference in pairs),
        p99=geometric_mean(run.all.act.p99 / reference.all.act.p99 for run, reference in pairs),
        step=geometric_mean(run.step_s / reference.step_s for run, reference in pairs),
    )


def _use(key: str, outcome: Outcome) -> Use:
    room = outcome.capacity[key] * max(1, outcome.step)
    granted = outcome.gauges[key].unit_ms()
    return Use(
        capacity=outcome.capacity[key],
        granted=granted / room,
        reserved=max(granted, outcome.reserved[key]) / room,
    )


def _mean_use(uses: Sequence[Use]) -> Use:
    return Use(
        capacity=uses[0].capacity,
        granted=fmean(use.granted for use in uses),
        reserved=fmean(use.reserved for use in uses),
    )
