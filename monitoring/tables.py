"""Tables for people: two runs of the same batch side by side. They fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from monitoring.report import BatchReport, ResourceReport, TaskReport


def comparison_table(before: BatchReport, after: BatchReport) -> Table:
    """Return the headline: completion time, step, resources, and how many times better `after` is."""
    table = Table(title="The same batch, twice", title_justify="left")
    table.add_column("")
    for name in (before.name, after.name, "better"):
        table.add_column(name, justify="right")
    for label, left, right in (
        ("mean ACT", before.act.mean, after.act.mean),
        ("p50 ACT", before.act.p50, after.act.p50),
        ("p99 ACT", before.act.p99, after.act.p99),
        ("step (batch wall time)", before.wall_s, after.wall_s),
    ):
        table.add_row(label, seconds(left), seconds(right), ratio(left, right))
    table.add_section()
    for row in _resource_rows(before, after):
        table.add_row(*row)
    table.add_row("page-ins", str(before.page_ins), str(after.page_ins), "")
    table.add_row("actions", str(before.n), str(after.n), "")
    return table


def act_table(report: BatchReport) -> Table:
    """Return where completion time went, per task."""
    table = Table(title=f"ACT per task: {report.name}", title_justify="left")
    table.add_column("task")
    for name in ("n", "mean", "p50", "p99", "queue", "overhead", "exec"):
        table.add_column(name, justify="right")
    for name, task in report.tasks.items():
        table.add_row(short(name), str(task.n), *map(seconds, _times(task)))
    return table


def sizes_table(report: BatchReport) -> Table:
    """Return how many actions of each task were granted which units of their key resource."""
    sizes = sorted({units for task in report.tasks.values() for units in task.sizes})
    table = Table(title=f"Units granted: {report.name}", title_justify="left")
    table.add_column("task")
    for units in sizes:
        table.add_column(f"{units} unit{'s' * (units > 1)}", justify="right")
    for name, task in report.tasks.items():
        table.add_row(short(name), *(str(task.sizes.get(units, "")) for units in sizes))
    return table


def short(task: str) -> str:
    """Return a task's name without its module."""
    return task.rpartition(".")[2]


def seconds(value: float) -> str:
    """Return seconds in the unit that reads best: "3.1 ms", "0.42 s", "118 s"."""
    if value < 0.1:
        return f"{value * 1000:.1f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def ratio(before: float, after: float) -> str:
    """Return how many times smaller `after` is, for example "3.4x"; "" if there is nothing to compare."""
    return f"{before / after:.1f}x" if before > 0 and after > 0 else ""


def _times(task: TaskReport) -> tuple[float, ...]:
    return task.act.mean, task.act.p50, task.act.p99, task.queue_s, task.overhead_s, task.exec_s


def _resource_rows(before: BatchReport, after: BatchReport) -> Iterator[tuple[str, ...]]:
    for name in sorted({*before.resources, *after.resources}):
        pair = before.resources.get(name), after.resources.get(name)
        yield f"{name}: units", *(str(one.capacity) if one else "" for one in pair), ""
        yield f"{name}: held", *(_share(one.held if one else None) for one in pair), ""
        yield f"{name}: granted to actions", *(_share(one.granted if one else None) for one in pair), ""
        if any(one and one.busy is not None for one in pair):
            yield f"{name}: held that worked", *map(_used, pair), ""


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _used(resource: ResourceReport | None) -> str:
    """Return the share of what was held that really worked."""
    if resource is None or resource.busy is None or not resource.held:
        return ""
    return f"{resource.busy / resource.held:.0%}"
