"""Policy "wait_or_start": for pools whose actions keep their size: start small now, or larger a little later.

Shortest first, aged so that nobody starves: an action counts as shorter by a share of the time it has waited. For
each, the size with the earliest finish counts, where a size that is not free yet starts when enough of what runs has
ended. If that size must wait, its units are set aside for it, and the others share the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.candidates import candidates
from scheduler.core.completion import OVERDUE, Running
from scheduler.core.events import Action
from scheduler.core.fcfs import due
from scheduler.core.rigid import RigidPolicy

#: Waiting actions that are compared in one decision, in queue order.
LOOK_AT = 64
#: ms of duration that one ms in the queue makes up for.
AGING = 1
#: Who has waited so long starts with what it finds, ms.
PATIENCE = 30_000


@dataclass(frozen=True, slots=True)
class WaitOrStartPolicy(RigidPolicy):
    """Earliest finish, shortest first."""

    def decide(
        self,
        now: int,
        free: Mapping[str, int],
        running: Collection[Running],
        queue: Sequence[Action],
    ) -> list[tuple[Action, int]]:
        """Return the actions to start now with their units, shortest first."""
        members = candidates(queue[:LOOK_AT], free)
        if not members:
            return []
        key = members[0].key
        left = free[key]
        ends = sorted((max(hold.end, now + OVERDUE), hold.units[key]) for hold in running if hold.units.get(key))
        started: list[tuple[Action, int]] = []
        for action in sorted(members, key=lambda one: one.durations[-1] - AGING * (now - due(one))):
            rank, waits = _earliest(action, now, left, ends)
            if waits and now - action.arrival < PATIENCE:
                left = max(0, left - action.sizes[rank])
                continue
            if action.sizes[0] > left:
                continue
            units = max(size for size in action.sizes if size <= left) if waits else action.sizes[rank]
            left -= units
            started.append((action, units))
        return started


def _earliest(action: Action, now: int, free: int, ends: Sequence[tuple[int, int]]) -> tuple[int, bool]:
    """Return the rank of the size that finishes first, and whether it has to wait; the smaller one at a tie."""
    best, waits, finish = 0, True, None
    for rank, (size, duration) in enumerate(zip(action.sizes, action.durations, strict=True)):
        start = _start(now, free, size, ends)
        if start is not None and (finish is None or start + duration < finish):
            best, waits, finish = rank, start > now, start + duration
    return best, waits


def _start(now: int, free: int, size: int, ends: Sequence[tuple[int, int]]) -> int | None:
    if size <= free:
        return now
    for end, units in ends:
        free += units
        if size <= free:
            return end
    return None
