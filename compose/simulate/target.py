"""How many machines are enough: the smallest cluster that meets a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from tangram_tasks.errors import Infeasible

#: No larger cluster is tried.
MOST_NODES = 4096


@dataclass(frozen=True, slots=True)
class Answer:
    """The smallest cluster that was found.

    Args:
        nodes: how many, or None if no number of nodes meets the target.
        value: seconds with so many nodes, or the best that was seen.
        tried: seconds by number of nodes; infinite where the workload does not fit.
    """

    nodes: int | None
    value: float
    tried: dict[int, float]


def smallest(measure: Callable[[int], float], target: float) -> Answer:
    """Return the fewest nodes with `measure(nodes) <= target`; no nodes and an infinite value if nothing fits.

    More nodes are taken to be no worse: after doubling up to a number that is enough, the gap below it is halved.
    The search ends when doubling no longer helps.

    Args:
        measure: seconds with a number of nodes; raises Infeasible if the workload does not fit them.
        target: seconds, above 0.
    """
    tried: dict[int, float] = {0: inf}

    def enough(nodes: int) -> bool:
        try:
            tried[nodes] = measure(nodes)
        except Infeasible:
            tried[nodes] = inf
        return tried[nodes] <= target

    low, high = 0, 1
    while not enough(high):
        if high == MOST_NODES or _settled(tried[low], tried[high]):
            return Answer(None, min(tried.values()), tried)
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return Answer(high, tried[high], tried)


def _settled(before: float, now: float) -> bool:
    """Whether twice as many nodes made less than a thousandth of difference."""
    return before < inf and now > 0.999 * before
