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

from scheduler.core.completion import after_first, waiting_act
from scheduler.core.events import Action

#: Arrangements that one decision may compare.
EVALUATIONS = 4
#: Who has waited so long is not evicted any more, ms.
PATIENCE = 30_000


def keeps_size(action: Action) -> bool:
    """Whether an action would keep for life the one of several sizes that it starts with."""
    return len(action.sizes) > 1 and not action.malleable


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
class _Arranged:
    """One arrangement: its objective in ms (None is infinite), and which size each item has, by position."""

    value: int | None
    ranks: list[int]


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

    def __init__(
        self,
        now: int,
        budget: int,
        fixed: Sequence[tuple[int, int]],
        occupants: Sequence[Occupant],
        candidates: Sequence[Action],
        later: Sequence[Action],
    ) -> None:
        self.now, self.budget, self.fixed = now, budget, fixed
        self.candidates, self.later = candidates, later
        self._occupants = len(occupants)
        self._sizes = [one.sizes for one in occupants] + [action.sizes for action in candidates]
        self._tables = [one.left for one in occupants] + [action.durations for action in candidates]
        self._stiff = [place for place, action in enumerate(candidates) if keeps_size(action)]

    def decide(self) -> tuple[set[str], dict[str, int]]:
        """Return whom to leave waiting, and the units of the other candidates that will keep their size."""
        if not self._stiff:
            return set(), {}
        best, dropped, _ = self._search()
        kept, gone = self._stiff[: len(self._stiff) - dropped], self._stiff[len(self._stiff) - dropped :]
        sizes = {
            self.candidates[place].id: self.candidates[place].sizes[best.ranks[self._occupants + place]]
            for place in kept
        }
        return {self.candidates[place].id for place in gone}, sizes

    def values(self) -> list[int | None]:
        """Return the objective of each arrangement in the order in which they were compared."""
        return self._search()[2] if self._stiff else []

    def _search(self) -> tuple[_Arranged, int, list[int | None]]:
        steps = _steps(self._sizes, self._tables)
        best, dropped = self._arrange(steps, 0), 0
        values = [best.value]
        most = 0 if self._roomy() else self._most()
        while dropped < most and len(values) < EVALUATIONS:
            other = self._arrange(steps, dropped + 1)
            values.append(other.value)
            if other.value is None or (best.value is not None and other.value >= best.value):
                break
            best, dropped = other, dropped + 1
        return best, dropped, values if most else []

    def _most(self) -> int:
        stiff = [self.candidates[place] for place in self._stiff]
        alone = not (self.fixed or self._occupants) and len(stiff) == len(self.candidates)
        patient = 0
        while patient < len(stiff) and self.now - stiff[-1 - patient].arrival < PATIENCE:
            patient += 1
        return min(patient, len(stiff) - alone)

    def _roomy(self) -> bool:
        growth = sum(sizes[-1] - sizes[0] for sizes in self._sizes)
        return not self.later and growth <= self.budget - sum(action.sizes[0] for action in self.candidates)

    def _arrange(self, steps: Sequence[Sequence[tuple[int, int]]], dropped: int) -> _Arranged:
        gone = set(self._stiff[len(self._stiff) - dropped :])
        kept = [place for place in range(len(self.candidates)) if place not in gone]
        active = [*range(self._occupants), *(self._occupants + place for place in kept)]
        spare = self.budget - sum(self.candidates[place].sizes[0] for place in kept)
        ranks, spare = _grow(steps, active, spare)
        now = self.now
        ends = [(now + self._tables[item][ranks[item]], self._sizes[item][ranks[item]]) for item in active]
        waiting = [self.candidates[place] for place in sorted(gone)]
        value = self._waiting_act(spare, ends, [*waiting, *self.later])
        if value is not None:
            since = self._occupants * now + sum(self.candidates[place].arrival for place in kept)
            value += sum(end for end, _ in ends) - since
        return _Arranged(value, ranks)

    def _waiting_act(self, spare: int, ends: list[tuple[int, int]], waiting: list[Action]) -> int | None:
        """Return the summed ACT of who waits; nobody starts before the first completion."""
        if not waiting:
            return 0
        then = after_first(self.now, spare, [*self.fixed, *ends])
        return None if then is None else waiting_act(*then, waiting)


def _steps(sizes: Sequence[tuple[int, ...]], tables: Sequence[tuple[int, ...]]) -> list[list[tuple[int, int]]]:
    """Return for each item its steps as (negative fall in ms per unit, units), up to the first that does not help.

    Falls per unit are scaled to whole numbers: in floats, ties would be decided by rounding.
    """
    scale = lcm(*{large - small for allowed in set(sizes) for small, large in pairwise(allowed)})
    rows = []
    for allowed, table in zip(sizes, tables, strict=True):
        steps = []
        for rank in range(len(allowed) - 1):
            fall, units = table[rank] - table[rank + 1], allowed[rank + 1] - allowed[rank]
            if fall <= 0:
                break
            steps.append((-fall * (scale // units), units))
        rows.append(steps)
    return rows


def _grow(steps: Sequence[Sequence[tuple[int, int]]], active: Sequence[int], left: int) -> tuple[list[int], int]:
    """Give `left` units to the active items, largest fall per unit first, earlier item at a tie.

    A step that does not fit ends the growth of its item. Returns the rank of each item, and the units left over.
    """
    ranks = [0] * len(steps)
    heap = [(steps[item][0][0], item) for item in active if steps[item]]
    heapq.heapify(heap)
    while heap and left > 0:
        _, item = heap[0]
        row, rank = steps[item], ranks[item]
        units = row[rank][1]
        if units <= left:
            left -= units
            ranks[item] = rank = rank + 1
            if rank < len(row):
                heapq.heapreplace(heap, (row[rank][0], item))
                continue
        heapq.heappop(heap)
    return ranks, left
