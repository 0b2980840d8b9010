"""Tables for people. They fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from compose.simulate.results import Row, Use


def tables(workload: str, rows: Sequence[Row]) -> Iterator[Table]:
    """Return, per batch size, a table of times, and one of shares and of how policies compare with the reference."""
    for batch in dict.fromkeys(row.batch for row in rows):
        here = [row for row in rows if row.batch == batch]
        seeds = f"{here[0].seeds} seed{'s' * (here[0].seeds > 1)}"
        yield _times(f"{workload}: {batch} trajectories, {seeds}; seconds", here)
        yield _shares(here)


def _times(title: str, rows: Sequence[Row]) -> Table:
    table = _table(title, "ACT", "±", "p50", "p99", "queue", "overhead", "exec", "step")
    for row in rows:
        times = (row.act, row.act_spread, row.p50, row.p99, row.queue_s, row.overhead_s, row.exec_s, row.step_s)
        table.add_row(row.policy, *(_digits(value) for value in times))
    return table


def _shares(rows: Sequence[Row]) -> Table:
    keys = list(dict.fromkeys(key for row in rows for key in row.use))
    table = _table("against paper (below 1 is better), and units used", "ACT", "p99", "step", *keys)
    for row in rows:
        ratios = row.ratios and (row.ratios.act, row.ratios.p99, row.ratios.step)
        compared = [f"x{ratio:.2f}" for ratio in ratios] if ratios else [""] * 3
        table.add_row(row.policy, *compared, *(_use(row.use.get(key)) for key in keys))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("policy", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right")
    return table


def _digits(seconds: float) -> str:
    """Return seconds with about three digits."""
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}" if seconds < 100 else f"{seconds:.0f}"


def _use(use: Use | None) -> str:
    """Return the share that actions held, what was reserved if that is more, and of how many units."""
    if use is None:
        return ""
    reserved = f", {use.reserved:.0%} reserved" if use.reserved > use.granted else ""
    return f"{use.granted:.0%}{reserved} of {use.capacity}"
