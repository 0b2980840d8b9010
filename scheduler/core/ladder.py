"""The ladder: the sizes of all actions whose units may change, while one decision moves them up and down.

Steps are compared by their gain, the relative speed-up per unit, which needs no estimate of the remaining time.
Jobs are levelled first: the job with the fewest units per weight grows first and the one with the most shrinks first.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.events import Action

#: A unit moves between two actions of one job only if it gains the taker a quarter more than it costs the giver.
MARGIN = (5, 4)
#: Moves between two actions that one decision may make.
SWAPS = 64
#: Actions whose next step does not fit that one decision looks past.
PARKED = 32

Entry = tuple[int, int, str, int]  # (gain or its negative, seq, id, rank when entered)


@dataclass(slots=True)
class Rung:
    """One action on the ladder.

    Args:
        action: it.
        gains: of its steps.
        rank: which size it has in this decision.
        voluntary: whether it may be resized for the sake of others that run; False for a while after the last time.
    """

    action: Action
    gains: tuple[int, ...]
    rank: int
    voluntary: bool = True

    @property
    def units(self) -> int:
        """Units it has in this decision."""
        return self.action.sizes[self.rank]

    @property
    def step(self) -> int:
        """Units of its next step. Raises IndexError if it has its largest size."""
        return self.action.sizes[self.rank + 1] - self.units


class Ladder:
    """Sizes that change during one decision.

    Args:
        free: units that nobody holds.
        levels: units that each job holds, these actions included.
        weights: share of each job; 1 if not named.
    """

    def __init__(self, free: int, levels: dict[str, int], weights: Mapping[str, int]) -> None:
        self.free = free
        self.rungs: dict[str, Rung] = {}
        self._levels = levels
        self._weights = weights
        self._tops: dict[str, list[Entry]] | None = None

    def add(self, rung: Rung) -> None:
        """Put an action on the ladder; its units are not free already."""
        self.rungs[rung.action.id] = rung
        if self._tops is not None:
            _enter_top(self._tops, rung)

    def take(self, job: str, units: int) -> None:
        """Let a starting action of a job have units, from those that fall free as others shrink.

        Each time the action that loses least by its last step shrinks.

        Raises:
            ValueError: not so many can be freed.
        """
        if self.free < units and self._tops is None:
            self._tops = {}
            for rung in self.rungs.values():
                _enter_top(self._tops, rung)
        while self.free < units:
            giver = self._cheapest(self._tops) if self._tops else None
            if giver is None or self._tops is None:
                raise ValueError(f"{units} units were promised to job {job!r}, but only {self.free} can be freed")
            self._move(giver, -1)
            _enter_top(self._tops, giver)
        self.free -= units
        self._levels[job] = self._levels.get(job, 0) + units

    def settle(self) -> None:
        """Give the free units away, best gain first, and move units to where they gain clearly more."""
        if self.free <= 0 and not self._swappable():
            return
        nexts: dict[str, list[Entry]] = {}
        for rung in self.rungs.values():
            if rung.voluntary:
                _enter_next(nexts, rung)
        first = self._hand_out(nexts)
        if first is not None:
            self._trade(nexts, first)

    def _hand_out(self, nexts: dict[str, list[Entry]]) -> Rung | None:
        """Let actions grow while their steps fit; returns the first whose step does not."""
        while (best := self._best(nexts)) is not None and best.step <= self.free:
            self._move(best, 1)
            _enter_next(nexts, best)
        return best

    def _trade(self, nexts: dict[str, list[Entry]], best: Rung | None) -> None:
        """Move units between actions, beginning with `best`, whose next step does not fit."""
        tops: dict[str, list[Entry]] = {}
        for rung in self.rungs.values():
            if rung.voluntary:
                _enter_top(tops, rung)
        swaps, parked = SWAPS, set[str]()
        while best is not None:
            if best.action.id in parked:
                pass
            elif best.step <= self.free:
                self._move(best, 1)
                _enter_next(nexts, best)
                _enter_top(tops, best)
            elif swaps and (giver := self._giver(tops, best)) is not None:
                swaps -= 1
                self._move(giver, -1)
                for rung in (giver, best):
                    _enter_next(nexts, rung)
                _enter_top(tops, giver)
            else:
                parked.add(best.action.id)
                if self.free <= 0 or len(parked) > PARKED:
                    return
            best = self._best(nexts)

    def _swappable(self) -> bool:
        """Whether units could move although none are free; cheap, since most decisions end here."""
        if len(self._levels) > 1:
            return True
        best = max((rung.gains[rung.rank] for rung in self.rungs.values() if rung.rank < len(rung.gains)), default=0)
        least = min((rung.gains[rung.rank - 1] for rung in self.rungs.values() if rung.rank), default=best)
        return MARGIN[1] * best > MARGIN[0] * least

    def _giver(self, tops: dict[str, list[Entry]], taker: Rung) -> Rung | None:
        """Take out the cheapest last step, if moving its units to the taker is worth it."""
        giver = self._cheapest(tops)
        if giver is None:
            return None
        if giver is not taker and self._worth(taker, giver):
            return giver
        _enter_top(tops, giver)
        return None

    def _worth(self, taker: Rung, giver: Rung) -> bool:
        if taker.action.job == giver.action.job:
            more, less = MARGIN
            return less * taker.gains[taker.rank] > more * giver.gains[giver.rank - 1]
        back = giver.units - giver.action.sizes[giver.rank - 1]
        return self._level(taker.action.job, taker.step) <= self._level(giver.action.job, -back)

    def _level(self, job: str, more: int = 0) -> float:
        return (self._levels.get(job, 0) + more) / self._weights.get(job, 1)

    def _move(self, rung: Rung, by: int) -> None:
        before = rung.units
        rung.rank += by
        self.free += before - rung.units
        self._levels[rung.action.job] = self._levels.get(rung.action.job, 0) + rung.units - before

    def _best(self, nexts: dict[str, list[Entry]]) -> Rung | None:
        """Take out the best next step of the job with the fewest units."""
        for job in nexts if len(nexts) == 1 else sorted(nexts, key=self._level):
            if (rung := self._pop(nexts[job])) is not None:
                return rung
        return None

    def _cheapest(self, tops: dict[str, list[Entry]]) -> Rung | None:
        """Take out the cheapest last step of the job with the most units."""
        for job in tops if len(tops) == 1 else sorted(tops, key=self._level, reverse=True):
            if (rung := self._pop(tops[job])) is not None:
                return rung
        return None

    def _pop(self, heap: list[Entry]) -> Rung | None:
        while heap:
            _, _, action, rank = heapq.heappop(heap)
            rung = self.rungs[action]
            if rung.rank == rank:  # else it moved since it was entered
                return rung
        return None


def _enter_next(heaps: dict[str, list[Entry]], rung: Rung) -> None:
    if rung.rank < len(rung.gains) and rung.gains[rung.rank] > 0:
        entry = (-rung.gains[rung.rank], rung.action.seq, rung.action.id, rung.rank)
        heapq.heappush(heaps.setdefault(rung.action.job, []), entry)


def _enter_top(heaps: dict[str, list[Entry]], rung: Rung) -> None:
    if rung.rank > 0:
        entry = (rung.gains[rung.rank - 1], rung.action.seq, rung.action.id, rung.rank)
        heapq.heappush(heaps.setdefault(rung.action.job, []), entry)
