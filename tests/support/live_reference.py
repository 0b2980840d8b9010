"""The decision of policy "live", written down literally and slowly from its rules R1-R10, for one job and one resource.

Every step looks through everything anew; there is no heap and nothing is kept between steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from scheduler.core.events import Action

EVALUATIONS, DEPTH, SWAPS, OVERDUE = 4, 16, 64, 50

Item = tuple[tuple[int, ...], tuple[int, ...]]  # allowed sizes, and ms at each
Hold = tuple[int, int]  # end in ms, units


@dataclass
class Runner:
    """A running action, malleable or not.

    Args:
        action: it.
        end: expected, ms.
        rank: which size it has.
    """

    action: Action
    end: int
    rank: int

    @property
    def units(self) -> int:
        return self.action.sizes[self.rank]

    def left(self, now: int) -> int:
        return self.end - now if self.end > now else OVERDUE

    def item(self, now: int) -> Item:
        durations = self.action.durations
        return self.action.sizes, tuple(self.left(now) * one // durations[self.rank] for one in durations)


def grown(items: Sequence[Item], left: int) -> tuple[list[int], int]:
    """Return each item's rank, and the units left over, by the words of R4."""
    ranks, growing = [0] * len(items), set(range(len(items)))
    while growing:
        steps = {}
        for item in growing:
            (sizes, table), rank = items[item], ranks[item]
            if rank + 1 < len(sizes) and table[rank] > table[rank + 1]:
                steps[item] = Fraction(table[rank] - table[rank + 1], sizes[rank + 1] - sizes[rank])
        if not steps:
            break
        best = max(steps, key=lambda item: (steps[item], -item))
        units = items[best][0][ranks[best] + 1] - items[best][0][ranks[best]]
        if units <= left:
            ranks[best] += 1
            left -= units
        else:
            growing.discard(best)
    return ranks, left


def objective(
    now: int, left: int, holds: Sequence[Hold], items: Sequence[Item], ranks: Sequence[int], waiting: Sequence[Action]
) -> int | None:
    """Return the summed ms of `items` at `ranks` and of who waits, by the words of R5; None is infinite.

    Args:
        now: ms.
        left: units that nobody has.
        holds: what runs beside the items.
        items: what runs on or starts.
        ranks: their sizes.
        waiting: in order; each since its arrival.
    """
    mine = [(now + table[rank], sizes[rank]) for rank, (sizes, table) in zip(ranks, items, strict=True)]
    total, clock, started, running = sum(end - now for end, _ in mine), now, False, [*holds, *mine]
    for one in waiting:
        while not started or left < one.sizes[0]:
            if not running:
                return None
            end, units = min(running)
            running.remove((end, units))
            clock, left, started = max(clock, end), left + units, True
        left -= one.sizes[0]
        running.append((clock + one.durations[0], one.sizes[0]))
        total += clock + one.durations[0] - one.arrival
    return total


def keeps_size(action: Action) -> bool:
    return len(action.sizes) > 1 and not action.malleable


def gated(
    now: int, budget: int, fixed: Sequence[Hold], occupants: Sequence[Item], members: list[Action], later: list[Action]
) -> dict[str, int]:
    """Return who starts, with the units of those that keep their size and the least of the others (R3-R6)."""
    stiff = [one for one in members if keeps_size(one)]
    if not stiff:
        return {one.id: one.sizes[0] for one in members}

    def evaluate(dropped: int) -> tuple[int | None, dict[str, int]]:
        gone = stiff[len(stiff) - dropped :]
        kept = [one for one in members if one not in gone]
        items = [*occupants, *((one.sizes, one.durations) for one in kept)]
        ranks, left = grown(items, budget - sum(one.sizes[0] for one in kept))
        sizes = {one.id: one.sizes[rank] for one, rank in zip(kept, ranks[len(occupants) :], strict=True)}
        value = objective(now, left, fixed, items, ranks, [*gone, *later])
        waited = sum(now - one.arrival for one in kept)
        return None if value is None else value + waited, sizes

    most = len(stiff) if fixed or occupants or len(stiff) < len(members) else len(stiff) - 1
    spare = budget - sum(one.sizes[0] for one in members)
    growth = [sizes[-1] - sizes[0] for sizes, _ in occupants] + [one.sizes[-1] - one.sizes[0] for one in members]
    roomy = not later and sum(growth) <= spare
    best, sizes = evaluate(0)
    dropped = 0
    while dropped < most and not roomy and dropped + 1 < EVALUATIONS:
        other, fewer = evaluate(dropped + 1)
        if other is None or (best is not None and other >= best):
            break
        best, sizes, dropped = other, fewer, dropped + 1
    return {one.id: sizes[one.id] if keeps_size(one) else one.sizes[0] for one in members if one.id in sizes}


def gain(action: Action, rank: int) -> int:
    """Return the relative speed-up per unit of the step from this rank, in millionths."""
    slow, fast = action.durations[rank : rank + 2]
    return (slow - fast) * 10**6 // (fast * (action.sizes[rank + 1] - action.sizes[rank]))


def decide(now: int, free: int, running: Sequence[Runner], queue: Sequence[Action]) -> dict[str, int]:
    """Return the units of everybody who starts, and of the malleable ones that run (R1-R10)."""
    movable = [Runner(one.action, one.end, one.rank) for one in running if one.action.malleable]
    fixed = [(now + one.left(now), one.units) for one in running if not one.action.malleable]
    budget = free + sum(one.units - one.action.sizes[0] for one in movable)
    fit = 0
    while fit < len(queue) and sum(one.sizes[0] for one in queue[: fit + 1]) <= budget:
        fit += 1
    members, later = list(queue[:fit]), list(queue[fit : fit + DEPTH])
    starts = gated(now, budget, fixed, [one.item(now) for one in movable], members, later)
    for one in members:
        if one.id not in starts:
            continue
        while free < starts[one.id]:
            giver = _cheapest(movable)
            assert giver is not None
            free += giver.units - giver.action.sizes[giver.rank - 1]
            giver.rank -= 1
        free -= starts[one.id]
        if one.malleable:
            movable.append(Runner(one, now + one.durations[0], 0))
    _settle(free, movable)
    return starts | {one.action.id: one.units for one in movable}


def _settle(free: int, movable: Sequence[Runner]) -> None:
    parked: set[str] = set()
    swaps = SWAPS
    while True:
        able = [
            one
            for one in movable
            if one.action.id not in parked and one.rank + 1 < len(one.action.sizes) and gain(one.action, one.rank) > 0
        ]
        if not able:
            return
        best = min(able, key=lambda one: (-gain(one.action, one.rank), one.action.seq))
        step = best.action.sizes[best.rank + 1] - best.units
        giver = _cheapest(movable)
        if step <= free:
            best.rank += 1
            free -= step
        elif swaps and giver is not None and giver is not best and 4 * gain(best.action, best.rank) > 5 * _cost(giver):
            swaps -= 1
            free += giver.units - giver.action.sizes[giver.rank - 1]
            giver.rank -= 1
        else:
            parked.add(best.action.id)
            if free == 0:
                return


def _cheapest(movable: Sequence[Runner]) -> Runner | None:
    """Return who loses least by its last step."""
    return min((one for one in movable if one.rank), key=lambda one: (_cost(one), one.action.seq), default=None)


def _cost(one: Runner) -> int:
    return gain(one.action, one.rank - 1)
