"""When waiting actions would end if they ran in order, each at its smallest size, as units fall free.

This is the approximate half of the paper's objective (section 4): exact ACT for candidates, and for everybody
behind them a first-come-first-served walk over a heap of completions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.core.events import Action


@dataclass(frozen=True, slots=True)
class Running:
    """One action that holds units.

    Args:
        end: when it is expected to end, ms.
        units: what it holds, by resource.
    """

    end: int
    units: Mapping[str, int]


def waiting_act(now: int, free: int, busy: Iterable[tuple[int, int]], waiting: Iterable[Action]) -> int | None:
    """Return the summed ACT in ms of `waiting`, or None if one of them could never start.

    Args:
        now: ms.
        free: units of the key resource that nobody holds.
        busy: (end in ms, units) of everything that runs.
        waiting: in the order in which they would start.
    """
    heap = list(busy)
    heapq.heapify(heap)
    clock, total = now, 0
    for action in waiting:
        need = action.sizes[0]
        while free < need:
            if not heap:
                return None
            end, units = heapq.heappop(heap)
            clock = max(clock, end)
            free += units
        free -= need
        end = clock + action.durations[0]
        heapq.heappush(heap, (end, need))
        total += end - action.arrival
    return total
