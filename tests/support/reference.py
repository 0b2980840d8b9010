"""The paper's decision, written down literally and slowly: every arrangement is enumerated, every step solved anew."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from scheduler.core.completion import Running
from scheduler.core.events import Action


def arrangement(members: Sequence[Action], budget: int) -> tuple[int, ...]:
    """Return the units of the best arrangement: shortest in sum, then fewest units, then small from the end."""

    def badness(given: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        spent = sum(one.durations[one.sizes.index(units)] for one, units in zip(members, given, strict=True))
        return spent, sum(given), given[::-1]

    return min((given for given in product(*(one.sizes for one in members)) if sum(given) <= budget), key=badness)


def objective(
    now: int,
    budget: int,
    running: Sequence[tuple[int, int]],
    members: Sequence[Action],
    later: Sequence[Action],
    kept: int,
) -> float:
    """Return the summed ACT with the first `kept` members started; infinite if somebody can never start."""
    given = arrangement(members[:kept], budget)
    holds = list(running)
    total = 0.0
    for one, units in zip(members[:kept], given, strict=True):
        end = now + one.durations[one.sizes.index(units)]
        holds.append((end, units))
        total += end - one.arrival
    capacity = budget + sum(units for _, units in running)
    clock = now
    for one in [*members[kept:], *later]:
        moments = sorted({clock, *(end for end, _ in holds if end > clock)})
        fitting = [at for at in moments if capacity - sum(units for end, units in holds if end > at) >= one.sizes[0]]
        if not fitting:
            return float("inf")
        clock = fitting[0]
        holds.append((clock + one.durations[0], one.sizes[0]))
        total += clock + one.durations[0] - one.arrival
    return total


def decide(
    now: int, free: dict[str, int], running: Sequence[Running], queue: Sequence[Action], depth: int
) -> dict[str, int]:
    """Return units by action id."""
    prefix = 0
    while prefix < len(queue) and all(
        sum(one.demand.get(name, 0) for one in queue[: prefix + 1]) <= free.get(name, 0)
        for name in {name for one in queue[: prefix + 1] for name in one.demand}
    ):
        prefix += 1
    decision: dict[str, int] = {}
    for key in {one.key for one in queue[:prefix]}:
        members = [one for one in queue[:prefix] if one.key == key]
        later = [one for one in queue[prefix:] if one.key == key][:depth]
        budget = free[key] - sum(one.demand.get(key, 0) for one in queue[:prefix] if one.key != key)
        holds = [(hold.end, hold.units[key]) for hold in running if key in hold.units]
        kept = len(members)
        while kept > 1 and objective(now, budget, holds, members, later, kept - 1) < objective(
            now, budget, holds, members, later, kept
        ):
            kept -= 1
        decision |= dict(zip((one.id for one in members), arrangement(members[:kept], budget), strict=False))
    return decision
