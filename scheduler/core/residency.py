"""Policy "residency": for the GPU pool, where starting a service that is not on a device costs a restore.

An action starts where its service is on an idle cell; else, at its smallest size, on the node where taking it in
costs least. It grows only onto idle devices that hold its service already, and only while nobody else waits: anything
else would cost a restore. Actions whose service is warm on idle devices go first; one that needs a restore is served
as if it had arrived `AGING` later, so that what waits for one service runs together before the next page-in, and
nobody starves. An action also waits for a busy device that holds its service and is expected back sooner than a
restore would pay. Beside that, idle devices take in what was asked for lately (`scheduler.core.layout`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.events import Action
from scheduler.core.fcfs import Order, due
from scheduler.core.gpu_node import GPU, GpuNode
from scheduler.core.gpu_plan import GpuPlan

#: Head start of an action whose service is warm, ms.
AGING = 2_000
#: Half of a typical restore, ms: a busy warm device that comes back sooner is worth waiting for.
HALF_RESTORE = 500
#: An action that lacks devices may be passed by others until it has waited so long, ms.
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

    aging: int = AGING
    half_restore: int = HALF_RESTORE
    patience: int = PATIENCE
    prefetches = True

    def decide(
        self, now: int, nodes: Mapping[str, GpuNode], queue: Sequence[Action], spare: Mapping[str, int]
    ) -> list[tuple[Action, str, int]]:
        """Return the actions to start now with node and devices: those with a warm service first, then first come."""
        plan = GpuPlan(now, nodes.values(), spare)
        returning = self._returning(now, nodes.values())
        looked = queue[:LOOK_AT]
        warm = plan.warm()
        for action in sorted(looked, key=lambda one: self._due(one, warm)):
            if not plan.places:
                break
            best = plan.best(action, action.sizes[0])
            if best is None:
                if now - action.arrival > self.patience:
                    plan.reserve(action)
                continue
            service, need = action.service or "", action.sizes[0]
            if best.cold and returning[service] >= need and now - action.arrival < self.aging:
                returning[service] -= need
                continue
            if len(looked) == 1:
                best = plan.grown(action, best)
            plan.start(action, best)
        return plan.started

    def look(self, now: int, nodes: Mapping[str, GpuNode], queue: Sequence[Action]) -> int | None:
        """Return when the first action that waits for a warm device has waited long enough, or that one is overdue."""
        fresh = [one for one in queue[:LOOK_AT] if one.service is not None and now - one.arrival < self.aging]
        if not fresh or not any(node.room for node in nodes.values()):
            return None
        moments = [action.arrival + self.aging for action in fresh]
        moments += [hold.end for node in nodes.values() for hold in node.running.values() if hold.end > now]
        return min(moments)

    def _due(self, action: Action, warm: Mapping[str, int]) -> Order:
        hit = action.service is None or warm.get(action.service, 0) >= action.sizes[0]
        return (due(action) + (0 if hit else self.aging), action.seq, action.id)

    def _returning(self, now: int, nodes: Iterable[GpuNode]) -> Counter[str]:
        """Return busy devices by service that are expected back within half a restore."""
        devices = Counter[str]()
        for hold in (hold for node in nodes if not node.draining for hold in node.running.values()):
            if hold.action is not None and hold.action.service and now < hold.end <= now + self.half_restore:
                devices[hold.action.service] += hold.units[GPU]
        return devices
