"""What came out of one simulated run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Finished(NamedTuple):
    """One action that ended; times in ms.

    Args:
        task: what kind it was.
        key: its key resource.
        queue: waited for its grant.
        overhead: from the grant to the start of the body.
        execution: of the body.
        held: unit-ms.
    """

    task: str
    key: str
    queue: int
    overhead: int
    execution: int
    held: int

    @property
    def act(self) -> int:
        """Action completion time."""
        return self.queue + self.overhead + self.execution


class Load(NamedTuple):
    """What was going on from `at` ms on: units that actions held, and actions that waited."""

    at: int
    units: int
    waiting: int


class Gauge:
    """Load of one resource over time."""

    def __init__(self) -> None:
        self.rows = [Load(0, 0, 0)]

    def change(self, at: int, units: int, waiting: int) -> None:
        """Note that at `at` ms so many more units are held and actions wait."""
        last = self.rows[-1]
        self.rows.append(Load(at, last.units + units, last.waiting + waiting))

    def unit_ms(self) -> int:
        """Return the area under the units."""
        return sum(
            row.units * (after.at - row.at) for row, after in zip(self.rows, self.rows[1:], strict=False) if row.units
        )


@dataclass(slots=True)
class Outcome:
    """One run of one workload under one policy.

    Args:
        capacity: units by key resource.
        finished: every action, in order of ending.
        gauges: load by key resource.
        step: ms until the last trajectory was over.
        reserved: unit-ms that trajectories or services reserved, by resource; none: only actions held units.
        resizes: how often a running action got other units.
        page_ins: services brought onto devices.
        refused: calls that a provider answered with 429.
    """

    capacity: Mapping[str, int]
    finished: list[Finished] = field(default_factory=list)
    gauges: dict[str, Gauge] = field(default_factory=dict)
    step: int = 0
    reserved: Counter[str] = field(default_factory=Counter)
    resizes: int = 0
    page_ins: int = 0
    refused: int = 0

    def acts(self) -> Sequence[int]:
        """Return all completion times in ms, ascending."""
        return sorted(row.act for row in self.finished)
