"""Everybody who waits, wherever: by id, by trajectory, by deadline."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from scheduler.core.domain import Domain
from scheduler.core.events import Action
from scheduler.core.fcfs import order
from scheduler.core.pool import kind_of


@dataclass(slots=True)
class Waiter:
    """An action that waits.

    Args:
        action: with the demand that it will be charged.
        domain: where it queues; None while its sandbox is not ready or its pool has no node.
    """

    action: Action
    domain: Domain | None = None

    def move(self, domain: Domain | None) -> None:
        """Leave the present queue, if any, for another."""
        if self.domain is not None:
            self.domain.dequeue(self.action)
        self.domain = domain
        if domain is not None:
            domain.enqueue(self.action)


class WaitingRoom:
    """The actions that wait for a grant."""

    def __init__(self) -> None:
        self._waiters: dict[str, Waiter] = {}
        self._of: dict[str, set[str]] = {}
        self._deadlines: list[tuple[int, str]] = []

    def __contains__(self, action: str) -> bool:
        return action in self._waiters

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._waiters.values())

    def add(self, action: Action) -> Waiter:
        """Let an action wait, in no queue yet."""
        waiter = self._waiters[action.id] = Waiter(action)
        if action.trajectory is not None:
            self._of.setdefault(action.trajectory, set()).add(action.id)
        if action.deadline is not None:
            heapq.heappush(self._deadlines, (action.deadline, action.id))
        return waiter

    def remove(self, action: str) -> None:
        """Let an action wait no more, and leave its queue. One that does not wait is ignored."""
        if action in self._waiters:
            self._waiters[action].move(None)
            self.forget(action)

    def forget(self, action: str) -> None:
        """Forget an action that its domain has taken out of the queue. Raises KeyError if it does not wait."""
        trajectory = self._waiters.pop(action).action.trajectory
        if trajectory is not None:
            self._of[trajectory].discard(action)
            if not self._of[trajectory]:
                del self._of[trajectory]

    def waiter(self, action: str) -> Waiter:
        """Return who waits under that id. Raises KeyError if nobody does."""
        return self._waiters[action]

    def of(self, trajectory: str) -> list[Waiter]:
        """Return who waits for a trajectory's sandbox or in its node's queue, first to be served first."""
        return _in_order(self._waiters[action] for action in self._of.get(trajectory, ()))

    def unpinned(self, kind: str) -> list[Waiter]:
        """Return who waits for any node of a pool, first to be served first."""
        return _in_order(
            waiter
            for waiter in self._waiters.values()
            if waiter.action.trajectory is None and kind_of(waiter.action) == kind
        )

    def expired(self, now: int) -> list[Waiter]:
        """Return who has waited up to its deadline at `now` ms."""
        late: dict[str, Waiter] = {}
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, action = heapq.heappop(self._deadlines)
            late[action] = self._waiters[action]
        return list(late.values())

    def next_deadline(self) -> int | None:
        """Return the earliest deadline in ms of anybody who waits, or None."""
        while self._deadlines:
            deadline, action = self._deadlines[0]
            if action in self._waiters and self._waiters[action].action.deadline == deadline:
                return deadline
            heapq.heappop(self._deadlines)  # granted, cancelled or submitted anew meanwhile
        return None


def check(action: Action) -> None:
    """Raise ValueError if an action's fields contradict each other."""
    wrong = None
    if not action.sizes or len(action.sizes) != len(action.durations):
        wrong = "needs one duration for each of its sizes"
    elif action.sizes[0] < 1 or any(small >= large for small, large in pairwise(action.sizes)):
        wrong = "needs sizes that rise from 1 or more"
    elif min(action.durations) < 1:
        wrong = "needs durations of at least 1 ms"
    elif action.demand.get(action.key) != action.sizes[0] or min(action.demand.values()) < 0:
        wrong = f"needs a demand with {action.key}={action.sizes[0]}, its smallest size, and nothing negative"
    if wrong is not None:
        raise ValueError(f"action {action.id} {wrong}: {action}")


def _in_order(waiters: Iterator[Waiter]) -> list[Waiter]:
    return sorted(waiters, key=lambda waiter: order(waiter.action))
