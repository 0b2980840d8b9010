"""Policy "utilisation": admit while the expected use of the node stays under a mark.

Use is what an action keeps busy, not what it holds: with duration d at m units and the work of its smallest size,
busy(m) = sizes[0] * durations[0] / d. It stands for the rule of thumb that operators use: start work while the
machine looks idle, each with as much as helps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.candidates import candidates
from scheduler.core.completion import Running, held
from scheduler.core.events import Action
from scheduler.core.rigid import RigidPolicy


@dataclass(frozen=True, slots=True)
class UtilisationPolicy(RigidPolicy):
    """First come, first served, each at the largest size that keeps the use under the mark.

    Args:
        mark: percent of the units of the domain that may be busy.
    """

    mark: int = 80

    def decide(
        self,
        now: int,
        free: Mapping[str, int],
        running: Collection[Running],
        queue: Sequence[Action],
    ) -> list[tuple[Action, int]]:
        """Return the actions to start now with their units, in queue order."""
        started: list[tuple[Action, int]] = []
        members = candidates(queue, free)
        if not members:
            return started
        key = members[0].key
        left, taken = free[key], held(running, key)
        room = self.mark * (left + taken) // 100
        busy = sum(_busy(hold.action, hold.rank) for hold in running if hold.action is not None and hold.units.get(key))
        for action in members:
            fitting = [
                rank
                for rank, size in enumerate(action.sizes)
                if size <= left and busy + _busy(action, rank) <= room and action.key == key
            ]
            if not fitting and (started or taken):
                break
            rank = max(fitting, default=0)
            busy += _busy(action, rank)
            left -= action.sizes[rank]
            started.append((action, action.sizes[rank]))
        return started


def _busy(action: Action, rank: int) -> int:
    return action.sizes[0] * action.durations[0] // action.durations[rank]
