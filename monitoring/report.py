"""The report of a batch: where actions' completion time went, and what became of the resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict

from tangram_tasks.report import ActionReport
from tangram_tasks.resources import CPU


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Spread(_Model):
    """Mean and quantiles of some seconds; all 0 if there are none."""

    mean: float = 0.0
    p50: float = 0.0
    p99: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Describe `values`."""
        ordered = sorted(values)
        if not ordered:
            return cls()
        return cls(mean=sum(ordered) / len(ordered), p50=_quantile(ordered, 0.5), p99=_quantile(ordered, 0.99))


class TaskReport(_Model):
    """One kind of action; times in seconds.

    Args:
        n: how many ran.
        act: action completion time, which is queue + overhead + exec.
        queue_s: mean seconds waited.
        overhead_s: mean seconds of giving and taking back the resources.
        exec_s: mean seconds of the body.
        sizes: units of the key resource granted, to how many actions got them.
    """

    n: int
    act: Spread
    queue_s: float
    overhead_s: float
    exec_s: float
    sizes: dict[int, int]


class ResourceReport(_Model):
    """One resource; the shares are of capacity x wall time, 0 to 1.

    Args:
        capacity: units.
        held: share that was unavailable to others: granted to an action, or reserved by a trajectory.
        granted: share that was granted to an action.
        busy: share that really worked, where that is measured (CPU time).
    """

    capacity: int
    held: float
    granted: float
    busy: float | None = None


class BatchReport(_Model):
    """A batch of trajectories.

    Args:
        name: for the reader.
        wall_s: seconds from the first action's begin to the last one's end: the RL step.
        act: completion time over all actions.
        tasks: by task name.
        resources: by resource name.
        page_ins: reward models brought onto a device, also ahead of need where nodes counted that.
    """

    name: str
    wall_s: float
    act: Spread
    tasks: dict[str, TaskReport]
    resources: dict[str, ResourceReport]
    page_ins: int

    @property
    def n(self) -> int:
        """How many actions ran."""
        return sum(task.n for task in self.tasks.values())


def build_report(
    name: str,
    reports: Sequence[ActionReport],
    *,
    capacity: Mapping[str, int],
    wall_s: float,
    cpu_unit: float = 1.0,
    reserved: Mapping[str, float] | None = None,
    page_ins: int | None = None,
) -> BatchReport:
    """Sum up the reports of a batch.

    Args:
        name: for the reader.
        reports: one per action.
        capacity: units of each resource.
        wall_s: length of the batch in seconds, above 0.
        cpu_unit: cores per CPU unit.
        reserved: unit-seconds that trajectories held, by resource; what is absent was held by actions only.
        page_ins: as the nodes counted them; None: those that actions waited for.

    Raises:
        ValueError: `wall_s` or a capacity is not above 0.
    """
    if wall_s <= 0 or any(units <= 0 for units in capacity.values()):
        raise ValueError(f"a report needs wall time and capacity above 0, not {wall_s} s and {dict(capacity)}")
    tasks: dict[str, list[ActionReport]] = {}
    for report in reports:
        tasks.setdefault(report.task, []).append(report)
    return BatchReport(
        name=name,
        wall_s=wall_s,
        act=Spread.of(report.act_s for report in reports),
        tasks={task: _task(rows) for task, rows in sorted(tasks.items())},
        resources={
            resource: _resource(resource, reports, units * wall_s, units, cpu_unit, reserved or {})
            for resource, units in sorted(capacity.items())
        },
        page_ins=sum(report.page_ins for report in reports) if page_ins is None else page_ins,
    )


def _task(rows: Sequence[ActionReport]) -> TaskReport:
    n = len(rows)
    return TaskReport(
        n=n,
        act=Spread.of(row.act_s for row in rows),
        queue_s=sum(row.queue_s for row in rows) / n,
        overhead_s=sum(row.overhead_s for row in rows) / n,
        exec_s=sum(row.exec_s for row in rows) / n,
        sizes=dict(sorted(Counter(row.units for row in rows).items())),
    )


def _resource(
    name: str,
    reports: Sequence[ActionReport],
    room: float,
    units: int,
    cpu_unit: float,
    reserved: Mapping[str, float],
) -> ResourceReport:
    rows = [report for report in reports if report.key == name]
    granted = sum(row.units * (row.overhead_s + row.exec_s) for row in rows)
    return ResourceReport(
        capacity=units,
        held=reserved.get(name, granted) / room,
        granted=granted / room,
        busy=sum(row.cpu_seconds for row in rows) / (room * cpu_unit) if name == CPU else None,
    )


def _quantile(ordered: Sequence[float], level: float) -> float:
    place = level * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
