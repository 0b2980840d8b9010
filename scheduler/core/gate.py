"""The gate of policy "live": greedy eviction of candidates that could never change their size again.

A candidate that is malleable or of one size is simply admitted at its smallest: that can be undone, or changes
nothing. One that keeps its size for life may do better to wait. Rules R3-R6 of the vectors of "live".
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import lcm

from scheduler.core.completion import waiting_act
from scheduler.core.events import Action

#: Arrangements that one decision may compare.
EVALUATIONS = 4
#: Who has waited so long is not evicted any more, ms.
PATIENCE = 30_000


@dataclass(frozen=True, slots=True)
class Occupant:
    """A running malleable action as the gate sees it.

    Args:
        sizes: its allowed units.
        left: ms it still needs at each of them.
    """

    sizes: tuple[int, ...]
    left: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """One decision's candidates and what they compete with.

    Args:
        now: ms.
        budget: free units, and those that running malleable actions could give up.
        fixed: (end in ms, units) of everything that runs and keeps its size.
        occupants: what runs and can change its size.
        candidates: in queue order.
        later: who waits behind them.
    """

    now: int
    budget: int
    fixed: Sequence[tuple[int, int]]
    occupants: Sequence[Occupant]
    candidates: Sequence[Action]
    later: Sequence[Action]

    @property
    def stiff(self) -> list[Action]:
        """The candidates that would keep the size they start with."""
        return [action for action in self.candidates if len(action.sizes) > 1 and not action.malleable]

    def decide(self) -> tuple[set[str], dict[str, int]]:
        """Return whom to leave waiting, and the units of the other stiff candidates."""
        kept, _ = self._search()
        return kept.dropped, kept.units

    def values(self) -> list[int | None]:
        """Return the objective of each arrangement in the order in which they were compared."""
        return self._search()[1]

    def _search(self) -> tuple[_Arranged, list[int | None]]:
        stiff = self.stiff
        best = self._arrange(stiff, 0)
        values = [best.value]
        most = 0 if self._roomy() else self._most(stiff)
        dropped = 0
        while dropped < most and len(values) < EVALUATIONS:
            other = self._arrange(stiff, dropped + 1)
            values.append(other.value)
            if other.value is None or (best.value is not None and other.value >= best.value):
                break
            best, dropped = other, dropped + 1
        return best, values if most else []

    def _most(self, stiff: Sequence[Action]) -> int:
        alone = not (self.fixed or self.occupants) and len(stiff) == len(self.candidates)
        impatient = 0
        while impatient < len(stiff) and self.now - stiff[-1 - impatient].arrival < PATIENCE:
            impatient += 1
        return min(impatient, len(stiff) - alone)

    def _roomy(self) -> bool:
        sizes = [one.sizes for one in self.occupants] + [action.sizes for action in self.candidates]
        growth = sum(allowed[-1] - allowed[0] for allowed in sizes)
        return not self.later and growth <= self.budget - sum(action.sizes[0] for action in self.candidates)

    def _arrange(self, stiff: Sequence[Action], dropped: int) -> _Arranged:
        names = {action.id for action in stiff[len(stiff) - dropped :]}
        kept = [action for action in self.candidates if action.id not in names]
        items = [(one.sizes, one.left) for one in self.occupants] + [(one.sizes, one.durations) for one in kept]
        ranks, spare = _grow(items, self.budget - sum(action.sizes[0] for action in kept))
        at = len(self.occupants)
        ends = [(self.now + table[rank], sizes[rank]) for (sizes, table), rank in zip(items, ranks, strict=True)]
        waiting = [action for action in self.candidates if action.id in names] + list(self.later)
        value = self._waiting_act(spare, ends, waiting)
        if value is not None:
            value += sum(end for end, _ in ends) - at * self.now - sum(action.arrival for action in kept)
        units = {
            action.id: action.sizes[rank]
            for action, rank in zip(kept, ranks[at:], strict=True)
            if len(action.sizes) > 1 and not action.malleable
        }
        return _Arranged(value, names, units)

    def _waiting_act(self, spare: int, ends: list[tuple[int, int]], waiting: list[Action]) -> int | None:
        """Return the summed ACT of who waits; nobody starts before the first completion.

        Otherwise a dropped action could "start now" in the estimate, and ties would decide.
        """
        if not waiting:
            return 0
        busy = [*self.fixed, *ends]
        if not busy:
            return None
        first = min(busy)
        busy.remove(first)
        return waiting_act(max(self.now, first[0]), spare + first[1], busy, waiting)


@dataclass(frozen=True, slots=True)
class _Arranged:
    value: int | None
    dropped: set[str]
    units: dict[str, int]


def _grow(items: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], left: int) -> tuple[list[int], int]:
    """Give `left` units to items of (sizes, ms at each), largest fall in ms per unit first. Returns ranks and rest.

    Falls per unit are compared as whole numbers: in floats, ties would be decided by rounding.
    """
    scale = lcm(*{large - small for sizes, _ in items for small, large in pairwise(sizes)})
    ranks = [0] * len(items)
    heap: list[tuple[int, int]] = []

    def enter(position: int) -> None:
        (sizes, table), rank = items[position], ranks[position]
        if rank + 1 < len(sizes) and table[rank] > table[rank + 1]:
            heap.append((-(table[rank] - table[rank + 1]) * scale // (sizes[rank + 1] - sizes[rank]), position))

    for position in range(len(items)):
        enter(position)
    heapq.heapify(heap)
    while heap and left > 0:
        _, position = heapq.heappop(heap)
        sizes, rank = items[position][0], ranks[position]
        step = sizes[rank + 1] - sizes[rank]
        if step > left:
            continue
        left -= step
        ranks[position] += 1
        before = len(heap)
        enter(position)
        if len(heap) > before:
            heapq.heappush(heap, heap.pop())
    return ranks, left
