"""When waiting actions would end if they ran in order, each at its smallest size, as units fall free.

This is the approximate half of the paper's objective (section 4): exact ACT for candidates, and for everybody
behind them a first-come-first-served walk over a heap of completions.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from scheduler.core.events import Action

#: An action that is past its expected end is taken to need this much more, ms.
OVERDUE = 50


class Running(NamedTuple):
    """One action that holds units.

    Args:
        end: when it is expected to end, ms.
        units: what it holds, by resource.
        action: the action itself; None where nobody asks for more than the units.
        rank: which of its sizes it has, by position.
        gains: relative speed-up per unit of each step to its next size; empty unless it may be resized.
        resized: when its size was changed last, ms; None if never.
    """

    end: int
    units: Mapping[str, int]
    action: Action | None = None
    rank: int = 0
    gains: tuple[int, ...] = ()
    resized: int | None = None

    def left(self, now: int) -> int:
        """Return the expected ms it still needs from `now` on; an overdue one needs a little."""
        return self.end - now if self.end > now else OVERDUE

    def left_by_size(self, now: int, action: Action) -> tuple[int, ...]:
        """Return the expected ms that `action`, which this is, would still need at each of its sizes."""
        left, current = self.left(now), action.durations[self.rank]
        return tuple([left * duration // current for duration in action.durations])


def held(running: Iterable[Running], key: str) -> int:
    """Return the units of a resource that running actions hold."""
    return sum(hold.units.get(key, 0) for hold in running)


def gains(action: Action) -> tuple[int, ...]:
    """Return by how much each step to the next size speeds an action up, per unit, in millionths.

    For sizes s and durations d: (d[k] - d[k+1]) / (d[k+1] * (s[k+1] - s[k])). It needs no estimate of the remaining
    time, only the shape of the curve.
    """
    return _gains(action.sizes, action.durations)


@lru_cache(maxsize=4096)  # each action is asked twice: when it is admitted, and when it is booked
def _gains(sizes: tuple[int, ...], durations: tuple[int, ...]) -> tuple[int, ...]:
    steps = zip(pairwise(durations), pairwise(sizes), strict=True)
    return tuple([(slow - fast) * 10**6 // (fast * (large - small)) for (slow, fast), (small, large) in steps])


def walk(
    now: int, free: int, busy: Iterable[tuple[int, int]], waiting: Iterable[Action], most: int = 0
) -> Iterator[tuple[int, int]]:
    """Yield (start, end) in ms of each of `waiting`, in order; stop at the first that could never start.

    Each starts at its smallest size, or at its largest that is free then, up to `most` units.

    Args:
        now: ms.
        free: units of the key resource that nobody holds.
        busy: (end in ms, units) of everything that runs.
        waiting: in the order in which they would start.
        most: units.
    """
    heap = list(busy)
    heapq.heapify(heap)
    clock = now
    for action in waiting:
        need = action.sizes[0]
        while free < need:
            if not heap:
                return
            end, units = heapq.heappop(heap)
            clock = max(clock, end)
            free += units
        rank = max(0, bisect_right(action.sizes, min(free, most)) - 1) if most else 0
        free -= action.sizes[rank]
        end = clock + action.durations[rank]
        heapq.heappush(heap, (end, action.sizes[rank]))
        yield clock, end


def waiting_act(
    now: int, free: int, busy: Iterable[tuple[int, int]], waiting: Sequence[Action], most: int = 0
) -> int | None:
    """Return the summed ACT in ms of `waiting`, or None if one of them could never start; see `walk`."""
    ends = [end for _, end in walk(now, free, busy, waiting, most)]
    if len(ends) < len(waiting):
        return None
    return sum(ends) - sum(action.arrival for action in waiting)


def after_first(now: int, free: int, busy: Sequence[tuple[int, int]]) -> tuple[int, int, list[tuple[int, int]]] | None:
    """Return the ms, the free units and what still runs when the first of `busy` has ended; None if nothing runs.

    Whoever is left waiting now does not start before that. Otherwise an evicted action could "start now" in the
    estimate, with just what it was evicted for.
    """
    if not busy:
        return None
    first = min(busy)
    rest = list(busy)
    rest.remove(first)
    return max(now, first[0]), free + first[1], rest
