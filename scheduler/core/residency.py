"""Policy "residency": for GPU nodes, where starting a service that is not on a device costs a restore.

An action grows beyond its smallest size only onto idle units that hold its service already, and only while nobody else
waits: anything else would cost a restore. Actions whose service is warm on idle units go first; one that needs a
restore is served as if it had arrived `AGING` later, so that what waits for one service runs together before the
next page-in, and nobody starves. An action also waits for a busy unit that holds its service and is expected back
sooner than a restore would pay. Beside that, idle units take in what was asked for lately (`scheduler.core.layout`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.fcfs import Order, due
from scheduler.core.rigid import NOTHING

#: Head start of an action whose service is warm, ms.
AGING = 2_000
#: Half of a typical restore, ms: a busy warm unit that comes back sooner is worth waiting for.
HALF_RESTORE = 500
#: An action that lacks units may be passed by smaller ones until it has waited so long, ms.
PATIENCE = 4_000
#: How many waiting actions one decision looks at.
LOOK_AT = 1_024


@dataclass(frozen=True, slots=True)
class ResidencyPolicy:
    """Warm services first, on what is warm already.

    Args:
        aging: ms.
        half_restore: ms.
        patience: ms.
    """

    resizes: ClassVar[bool] = False

    aging: int = AGING
    half_restore: int = HALF_RESTORE
    patience: int = PATIENCE
    prefetches = True

    def decide(
        self,
        now: int,
        free: Mapping[str, int],
        running: Collection[Running],
        queue: Sequence[Action],
        warm: Mapping[str, int] = NOTHING,
    ) -> list[tuple[Action, int]]:
        """Return the actions to start now with their units: those with a warm service first, then first come."""
        left, idle, returning = dict(free), dict(warm), self._returning(now, running)
        started: list[tuple[Action, int]] = []
        looked = queue[:LOOK_AT]
        for action in sorted(looked, key=lambda one: self._due(one, idle)):
            need, service = action.sizes[0], action.service
            if any(amount > left.get(name, 0) for name, amount in action.demand.items()):
                if now - action.arrival > self.patience:
                    break
                continue
            if service is not None:
                fresh = now - action.arrival < self.aging
                if idle.get(service, 0) < need <= returning.get(service, 0) and fresh:
                    returning[service] -= need
                    continue
                if len(looked) == 1:
                    need = _grown(action, min(idle.get(service, 0), left[action.key]))
                idle[service] = max(0, idle.get(service, 0) - need)
            for name, amount in {**action.demand, action.key: need}.items():
                left[name] -= amount
            started.append((action, need))
        return started

    def look(
        self, now: int, free: Mapping[str, int], running: Collection[Running], queue: Sequence[Action]
    ) -> int | None:
        """Return when the first action that waits for a warm unit has waited long enough, or that unit is overdue."""
        fresh = [one for one in queue[:LOOK_AT] if one.service is not None and now - one.arrival < self.aging]
        if not fresh or not any(amount > 0 for amount in free.values()):
            return None
        moments = [action.arrival + self.aging for action in fresh]
        moments += [hold.end for hold in running if hold.end > now]
        return min(moments)

    def _due(self, action: Action, warm: Mapping[str, int]) -> Order:
        hit = action.service is None or warm.get(action.service, 0) >= action.sizes[0]
        return (due(action) + (0 if hit else self.aging), action.seq, action.id)

    def _returning(self, now: int, running: Collection[Running]) -> dict[str, int]:
        """Return busy units by service that are expected back within half a restore."""
        units: dict[str, int] = {}
        for hold in running:
            if hold.action is not None and hold.action.service and now < hold.end <= now + self.half_restore:
                units[hold.action.service] = units.get(hold.action.service, 0) + hold.units[hold.action.key]
        return units


def _grown(action: Action, warm: int) -> int:
    """Return the largest size that `warm` units allow, and the smallest if none does."""
    return max((size for size in action.sizes if size <= warm), default=action.sizes[0])
