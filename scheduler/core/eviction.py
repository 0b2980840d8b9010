"""Greedy eviction: leave the last candidate waiting as long as that makes the summed ACT smaller."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from itertools import accumulate

from scheduler.core.arrangement import Arrangement
from scheduler.core.candidates import Group
from scheduler.core.completion import Running, after_first, waiting_act
from scheduler.core.events import Action

#: Up to here each step drops one candidate, as in the paper; from here on each step drops twice as many as the
#: one before, so that a bulk arrival of n candidates costs at most EXACT_STEPS + log2(n) evaluations.
EXACT_STEPS = 32


class Objective:
    """Summed ACT in ms of a fixed set of actions, by how many candidates are kept.

    The set is the group's candidates before any eviction and the waiting ones behind them: if it shrank with each
    eviction, dropping a candidate would look like a gain by definition.

    Args:
        now: ms.
        group: candidates, their budget and who waits behind them.
        running: what holds units now.
        waiting_units: what a waiting action may take in the simulated queue; 0 is its smallest size.
    """

    def __init__(self, now: int, group: Group, running: Collection[Running], waiting_units: int = 0) -> None:
        self.arrangement = Arrangement(group.members, group.budget)
        self._now = now
        self._group = group
        self._waiting_units = waiting_units
        self._running = running
        self._arrivals = [0, *accumulate(member.arrival for member in group.members)]

    @cached_property
    def busy(self) -> list[tuple[int, int]]:
        """(end in ms, units) of everything that runs; most decisions on one candidate never ask."""
        key = self._group.key
        return [(hold.end, hold.units[key]) for hold in self._running if hold.units.get(key)]

    def __call__(self, kept: int) -> int | None:
        """Return the objective with the first `kept` candidates started now, or None if somebody could never start."""
        group, now = self._group, self._now
        units = self.arrangement.units(kept)
        started = [
            (now + member.durations[member.sizes.index(given)], given)
            for member, given in zip(group.members, units, strict=False)
        ]
        rest = group.members[kept:] + group.later
        waiting = self._waiting_act(group.budget - sum(units), self.busy + started, rest)
        if waiting is None:
            return None
        return kept * now + self.arrangement.total(kept) - self._arrivals[kept] + waiting

    def _waiting_act(self, free: int, busy: list[tuple[int, int]], rest: tuple[Action, ...]) -> int | None:
        if not self._waiting_units or not rest:
            return waiting_act(self._now, free, busy, rest)
        then = after_first(self._now, free, busy)
        return None if then is None else waiting_act(*then, rest, self._waiting_units)


def keep(objective: Callable[[int], int | None], count: int, least: int = 1) -> int:
    """Return how many of `count` candidates to keep; at least `least`.

    Drops from the end while the objective strictly falls and stops at the first step at which it does not.
    """
    if count <= least:
        return count
    best, kept, step, evaluations = objective(count), count, 1, 1
    while kept > least:
        fewer = max(least, kept - step)
        value = objective(fewer)
        if value is None or (best is not None and value >= best):
            break
        best, kept = value, fewer
        evaluations += 1
        if evaluations > EXACT_STEPS:
            step *= 2
    return kept
