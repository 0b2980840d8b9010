"""Policy "live": admit at once and at the smallest size; let running actions grow, and shrink again for who waits.

Candidates are the first who fit what is free plus what running malleable actions could give up. Those that would
keep their size for life pass a gate (`scheduler.core.gate`); the others start. Whatever is free afterwards goes to
the steps with the best relative speed-up per unit (`scheduler.core.ladder`). Rules R1-R10 of the vectors of "live".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import ClassVar

from scheduler.core.completion import Running, gains
from scheduler.core.events import Action
from scheduler.core.gate import Gate, Occupant, keeps_size
from scheduler.core.ladder import Ladder, Rung
from scheduler.core.rigid import EQUAL

#: Voluntary resizes of one action are at least so far apart, ms. Shrinks for somebody who waits come at once.
SPACING = 250
#: While the first in the queue lacks another resource than units, others may pass it until it has waited so long, ms.
PATIENCE = 10_000

#: How many such actions one decision looks past.
LOOK_PAST = 64
#: Waiting actions among which other jobs are looked for.
AHEAD = 64


@dataclass(frozen=True, slots=True)
class LivePolicy:
    """Sizes that follow the load.

    Args:
        depth: how many waiting actions behind the candidates count in the gate's objective.
        weights: share of each RL job; 1 if not named.
        spacing: ms between voluntary resizes of one action.
    """

    resizes: ClassVar[bool] = True

    depth: int = 16
    weights: Mapping[str, int] = field(default_factory=lambda: EQUAL)
    spacing: int = SPACING

    def decide(
        self,
        now: int,
        free: Mapping[str, int],
        running: Collection[Running],
        queue: Sequence[Action],
    ) -> list[tuple[Action, int]]:
        """Return shrinks, starts in queue order, and grows."""
        key = _key(running, queue)
        movable = [(hold, hold.action) for hold in running if hold.gains and hold.action is not None]
        ladder = Ladder(free.get(key, 0), _levels(running, queue, key), self.weights)
        for hold, action in movable:
            voluntary = hold.resized is None or now - hold.resized >= self.spacing
            ladder.add(Rung(action, hold.gains, hold.rank, voluntary))
        starts = self._admit(ladder, self.explain(now, free, running, queue)) if queue else []
        ladder.settle()
        rungs = ladder.rungs
        moves = [
            (hold, action, rungs[action.id].rank) for hold, action in movable if rungs[action.id].rank != hold.rank
        ]
        return [
            *((action, action.sizes[rank]) for hold, action, rank in moves if rank < hold.rank),
            *((action, rungs[action.id].units if action.id in rungs else units) for action, units in starts),
            *((action, action.sizes[rank]) for hold, action, rank in moves if rank > hold.rank),
        ]

    def look(
        self, now: int, free: Mapping[str, int], running: Collection[Running], queue: Sequence[Action]
    ) -> int | None:
        """Return when the next action may be resized again, if units are free and it could use them."""
        if not any(amount > 0 for amount in free.values()):
            return None
        moments = (
            hold.resized + self.spacing
            for hold in running
            if hold.resized is not None and hold.rank < len(hold.gains) and hold.gains[hold.rank] > 0
        )
        return min((at for at in moments if at > now), default=None)

    def explain(self, now: int, free: Mapping[str, int], running: Collection[Running], queue: Sequence[Action]) -> Gate:
        """Return the gate of `decide`, with the figures behind it."""
        key = _key(running, queue)
        movable = [(hold, hold.action) for hold in running if hold.gains and hold.action is not None]
        budget = free.get(key, 0) + sum(hold.units[key] - action.sizes[0] for hold, action in movable)
        members, passed = _candidates(now, queue, {**free, key: budget}, key)
        if not any(keeps_size(action) for action in members):
            return Gate(now, budget, (), (), members, ())
        names = {action.id for action in members}
        behind = (action for action in islice(queue, passed + self.depth) if action.id not in names)
        return Gate(
            now=now,
            budget=budget,
            fixed=[(now + hold.left(now), hold.units[key]) for hold in running if _fixed(hold, key)],
            occupants=[Occupant(action.sizes, hold.left_by_size(now, action)) for hold, action in movable],
            candidates=members,
            later=list(islice(behind, self.depth)),
        )

    def _admit(self, ladder: Ladder, gate: Gate) -> list[tuple[Action, int]]:
        dropped, sizes = gate.decide()
        starts = []
        for action in gate.candidates:
            if action.id in dropped:
                continue
            units = sizes.get(action.id, action.sizes[0])
            ladder.take(action.job, units)
            if action.malleable:
                ladder.add(Rung(action, gains(action), 0))
            starts.append((action, units))
        return starts


def _key(running: Collection[Running], queue: Sequence[Action]) -> str:
    actions = (hold.action for hold in running if hold.action is not None)
    return next((action.key for action in chain(actions, queue[:1])), "")


def _fixed(hold: Running, key: str) -> bool:
    return not hold.gains and bool(hold.units.get(key))


def _levels(running: Collection[Running], queue: Sequence[Action], key: str) -> dict[str, int]:
    """Return the units that each job holds; nobody asks for them if there is one job."""
    jobs = {hold.action.job for hold in running if hold.action is not None} | {action.job for action in queue[:AHEAD]}
    levels = dict.fromkeys(jobs, 0)
    if len(jobs) > 1:
        for hold in running:
            if hold.action is not None:
                levels[hold.action.job] += hold.units.get(key, 0)
    return levels


def _candidates(now: int, queue: Sequence[Action], free: Mapping[str, int], key: str) -> tuple[list[Action], int]:
    """Return the first who fit `free` at their smallest size, and how far the queue was read.

    The first that does not fit ends the list, unless only another resource than units is missing and it is patient.
    """
    left = dict(free)
    members: list[Action] = []
    passed = 0
    for place, action in enumerate(queue):
        demand = action.demand
        for name, amount in demand.items():
            if amount > left.get(name, 0):
                break
        else:
            members.append(action)
            for name, amount in demand.items():
                left[name] = left.get(name, 0) - amount
            continue
        if demand[key] > left[key] or now - action.arrival >= PATIENCE or passed == LOOK_PAST:
            return members, place
        passed += 1
    return members, len(queue)
