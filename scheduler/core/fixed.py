"""Policies "fixed:N" and "min": first come, first served, each action at one size, whatever else is free."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.candidates import candidates
from scheduler.core.completion import Running, held
from scheduler.core.events import Action
from scheduler.core.rigid import RigidPolicy


@dataclass(frozen=True, slots=True)
class FixedPolicy(RigidPolicy):
    """Everybody gets the same; the first that does not fit ends the decision.

    Args:
        units: an action gets its largest size up to this that the domain could hold, or its smallest; 0 is always
            the smallest.
    """

    units: int = 0

    def decide(
        self,
        now: int,
        free: Mapping[str, int],
        running: Collection[Running],
        queue: Sequence[Action],
    ) -> list[tuple[Action, int]]:
        """Return the actions to start now with their units, in queue order."""
        left = dict(free)
        started: list[tuple[Action, int]] = []
        for action in candidates(queue, free):
            most = min(self.units, free[action.key] + held(running, action.key)) if self.units else 0
            units = max((size for size in action.sizes if size <= most), default=action.sizes[0])
            charge = {**action.demand, action.key: units}
            if any(amount > left.get(name, 0) for name, amount in charge.items()):
                break
            for name, amount in charge.items():
                left[name] = left.get(name, 0) - amount
            started.append((action, units))
        return started
