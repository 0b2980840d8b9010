"""Policy "live": admit at once and at the smallest size; let running actions grow, and shrink again for who waits.

Candidates are the first who fit what is free plus what running malleable actions could give up. Those that would
keep their size for life pass a gate (`scheduler.core.gate`); the others start. Whatever is free afterwards goes to
the steps with the best relative speed-up per unit (`scheduler.core.ladder`). Rules R1-R10 of the vectors of "live".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from scheduler.core.completion import OVERDUE, Running, gains
from scheduler.core.events import Action
from scheduler.core.gate import Gate, Occupant
from scheduler.core.ladder import Ladder, Rung
from scheduler.core.rigid import EQUAL, NOTHING

#: Voluntary resizes of one action are at least so far apart, ms. Shrinks for somebody who waits come at once.
SPACING = 250
#: While the first in the queue lacks another resource than units, others may pass it until it has waited so long, ms.
PATIENCE = 10_000

#: How many such actions one decision looks past.
LOOK_PAST = 64


@dataclass(frozen=True, slots=True)
class LivePolicy:
    """Sizes that follow the load.

    Args:
        depth: how many waiting actions behind the candidates count in the gate's objective.
        weights: share of each RL job; 1 if not named.
        spacing: ms between voluntary resizes of one action.
    """

    depth: int = 16
    weights: Mapping[str, int] = field(default_factory=lambda: EQUAL)
    spacing: int = SPACING

    def decide(
        self,
        now: int,
        free: Mapping[str, int],
        running: Collection[Running],
        queue: Sequence[Action],
        warm: Mapping[str, int] = NOTHING,
    ) -> list[tuple[Action, int]]:
        """Return shrinks, starts in queue order, and grows."""
        key = next((hold.action.key for hold in running if hold.action is not None), queue[0].key if queue else "")
        if not key:
            return []
        movable = [hold for hold in running if hold.gains]
        ladder = Ladder(free.get(key, 0), _levels(running, key), self.weights)
        for hold in movable:
            ladder.add(_rung(hold, voluntary=hold.resized is None or now - hold.resized >= self.spacing))
        starts = self._admit(ladder, self._gate(now, free, running, queue, key))
        ladder.settle()
        moves = [(hold, ladder.rungs[hold.action.id].units) for hold in movable if hold.action is not None]
        return [
            *((hold.action, units) for hold, units in moves if hold.action and units < hold.units[key]),
            *(
                (action, ladder.rungs[action.id].units if action.id in ladder.rungs else units)
                for action, units in starts
            ),
            *((hold.action, units) for hold, units in moves if hold.action and units > hold.units[key]),
        ]

    def look(
        self, now: int, free: Mapping[str, int], running: Collection[Running], queue: Sequence[Action]
    ) -> int | None:
        """Return when the next action may be resized again, if units are free and it could use them."""
        if not any(free.values()):
            return None
        moments = (
            hold.resized + self.spacing
            for hold in running
            if hold.resized is not None and hold.rank < len(hold.gains) and hold.gains[hold.rank] > 0
        )
        return min((at for at in moments if at > now), default=None)

    def explain(
        self, now: int, free: Mapping[str, int], running: Collection[Running], queue: Sequence[Action], key: str
    ) -> Gate:
        """Return the gate of `decide` for the resource `key`, with the figures behind it."""
        return self._gate(now, free, running, queue, key)

    def _gate(
        self, now: int, free: Mapping[str, int], running: Collection[Running], queue: Sequence[Action], key: str
    ) -> Gate:
        occupants, fixed, budget = [], [], free.get(key, 0)
        for hold in running:
            if hold.gains and hold.action is not None:
                sizes = hold.action.sizes
                budget += hold.units[key] - sizes[0]
                occupants.append(hold)
            elif hold.units.get(key):
                fixed.append(hold)
        members, passed = _candidates(now, queue, {**free, key: budget}, key)
        names = {action.id for action in members}
        behind = (action for action in islice(queue, 0, passed + self.depth) if action.id not in names)
        return Gate(
            now=now,
            budget=budget,
            fixed=[(hold.end if hold.end > now else now + OVERDUE, hold.units[key]) for hold in fixed],
            occupants=[_occupant(hold, now) for hold in occupants],
            candidates=members,
            later=list(islice(behind, self.depth)),
        )

    def _admit(self, ladder: Ladder, gate: Gate) -> list[tuple[Action, int]]:
        dropped, sizes = gate.decide() if gate.stiff else (set[str](), dict[str, int]())
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


def _rung(hold: Running, *, voluntary: bool) -> Rung:
    assert hold.action is not None
    return Rung(hold.action, hold.gains, hold.rank, voluntary)


def _occupant(hold: Running, now: int) -> Occupant:
    assert hold.action is not None
    return Occupant(hold.action.sizes, tuple(hold.left(now, rank) for rank in range(len(hold.action.sizes))))


def _levels(running: Collection[Running], key: str) -> dict[str, int]:
    levels: dict[str, int] = {}
    for hold in running:
        if hold.action is not None:
            levels[hold.action.job] = levels.get(hold.action.job, 0) + hold.units.get(key, 0)
    return levels


def _candidates(now: int, queue: Sequence[Action], free: Mapping[str, int], key: str) -> tuple[list[Action], int]:
    """Return the first who fit `free` at their smallest size, and how far the queue was read.

    The first that does not fit ends the list, unless only another resource than units is missing and it is patient.
    """
    left = dict(free)
    members: list[Action] = []
    passed = 0
    for place, action in enumerate(queue):
        short = [name for name, amount in action.demand.items() if amount > left.get(name, 0)]
        if not short:
            members.append(action)
            for name, amount in action.demand.items():
                left[name] = left.get(name, 0) - amount
        elif key in short or now - action.arrival >= PATIENCE or passed == LOOK_PAST:
            return members, place
        else:
            passed += 1
    return members, len(queue)
