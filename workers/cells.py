"""Cells: aligned groups of 1, 2, 4 or 8 devices, and who gets which. Pure arithmetic.

Devices with a fast link between them form a group; a group is cut into cells of 8, 4, 2 and 1 like a buddy allocator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tangram_tasks.errors import ConfigurationError

LEVELS = (1, 2, 4, 8)

Cell = tuple[int, ...]


class CellTree:
    """The cells of a node.

    Args:
        groups: device indexes, each once; those of one group are linked fast.
        count: devices there are; None takes those that the groups name.

    Raises:
        ConfigurationError: the groups do not name each device once.
    """

    def __init__(self, groups: Sequence[Sequence[int]], count: int | None = None) -> None:
        self.devices = tuple(sorted(index for group in groups for index in group))
        there = len(self.devices) if count is None else count
        if self.devices != tuple(range(there)):
            raise ConfigurationError(
                f"the cells of a node must name each of its {there} devices once, not {list(map(list, groups))}"
            )
        self._levels: dict[int, tuple[Cell, ...]] = {
            level: tuple(
                tuple(group[at : at + level]) for group in groups for at in range(0, len(group) - level + 1, level)
            )
            for level in LEVELS
        }
        if len(self.devices) == LEVELS[-1]:
            self._levels[LEVELS[-1]] = (tuple(index for group in groups for index in group),)

    def choices(self, units: int) -> tuple[Cell, ...]:
        """Return what `units` devices can be: cells, or any devices where no cell has that size."""
        return self._levels.get(units) or tuple(combinations(self.devices, units))

    def broken(self, cell: Cell, free: Collection[int]) -> int:
        """Return how many larger cells, free as a whole, would not be so without this one."""
        return sum(
            set(cell) < set(larger) <= set(free)
            for level in LEVELS
            if level > len(cell)
            for larger in self._levels[level]
        )

    def fits(self, free: Collection[int], demands: Sequence[int]) -> bool:
        """Whether cells of all these sizes can be had at once.

        Counts free cells by level, splitting larger ones; this equals exhaustive search (tested).

        Args:
            free: devices.
            demands: sizes, each one of LEVELS.
        """
        left, whole = set(free), dict.fromkeys(LEVELS, 0)
        for level in reversed(LEVELS):
            for cell in self._levels[level]:
                if left.issuperset(cell):
                    whole[level] += 1
                    left.difference_update(cell)
        carried = 0
        for level in reversed(LEVELS):
            carried += whole[level] - demands.count(level)
            if carried < 0:
                return False
            carried *= 2
        return True


@dataclass(frozen=True, slots=True)
class Want:
    """What one action wants.

    Args:
        choices: the cells that would do.
        cost: of each of them.
    """

    choices: tuple[Cell, ...]
    cost: Mapping[Cell, float]


def arrange(free: Collection[int], wants: Sequence[Want]) -> list[Cell] | None:
    """Return a cell for each want, at the smallest total cost, or None if they cannot all be had at once.

    Exact: dynamic programming over (wants left, free devices as a bitmap).
    """
    known: dict[tuple[int, int], tuple[float, list[Cell]] | None] = {}

    def best(at: int, mask: int) -> tuple[float, list[Cell]] | None:
        if at == len(wants):
            return 0.0, []
        if (at, mask) not in known:
            known[at, mask] = min(filter(None, (taking(at, mask, cell) for cell in wants[at].choices)), default=None)
        return known[at, mask]

    def taking(at: int, mask: int, cell: Cell) -> tuple[float, list[Cell]] | None:
        bits = _bits(cell)
        rest = best(at + 1, mask & ~bits) if mask & bits == bits else None
        return None if rest is None else (wants[at].cost[cell] + rest[0], [cell, *rest[1]])

    found = best(0, _bits(free))
    return None if found is None else found[1]


def _bits(devices: Collection[int]) -> int:
    return sum(1 << index for index in devices)
