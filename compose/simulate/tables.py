"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from compose.simulate.results import Row
from monitoring.tables import seconds


def tables(workload: str, rows: Sequence[Row]) -> Iterator[Table]:
    """Return one table per batch size: times per policy, how they compare with the reference, what was used."""
    for batch in dict.fromkeys(row.batch for row in rows):
        here = [row for row in rows if row.batch == batch]
        capacities = " ".join(f"{key}={use.capacity}" for key, use in here[-1].use.items())
        title = f"{workload}, {batch} trajectories, {here[0].seeds} seeds, {capacities}"
        yield _table(title, here)


def _table(title: str, rows: Sequence[Row]) -> Table:
    keys = list(dict.fromkeys(key for row in rows for key in row.use))
    table = Table(title=title, title_justify="left")
    table.add_column("policy")
    for name in ("ACT", "±", "p50", "p99", "queue", "overhead", "exec", "step", *(f"{key} used" for key in keys)):
        table.add_column(name, justify="right")
    compared = any(row.ratios for row in rows)
    if compared:
        table.add_column("ACT/p99/step", justify="right")
    for row in rows:
        times = (row.act, row.act_spread, row.p50, row.p99, row.queue_s, row.overhead_s, row.exec_s, row.step_s)
        cells = [row.policy, *map(seconds, times), *(_use(row, key) for key in keys)]
        table.add_row(*cells, *([_ratios(row)] if compared else []))
    return table


def _ratios(row: Row) -> str:
    return "" if row.ratios is None else f"{row.ratios.act:.2f} {row.ratios.p99:.2f} {row.ratios.step:.2f}"


def _use(row: Row, key: str) -> str:
    """Return the share that actions held, and what was reserved if that is more."""
    use = row.use.get(key)
    if use is None:
        return ""
    share = f"{use.granted:.0%}"
    return f"{share} of {use.reserved:.0%}" if use.reserved > use.granted else share
