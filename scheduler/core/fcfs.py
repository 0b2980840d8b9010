"""A queue of waiting actions: first come, first served, with priorities that age."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from scheduler.core.events import Action

#: One step of priority is worth so much earlier an arrival, ms. So nobody starves: whoever has waited longer than
#: that is served before fresh actions of the next higher priority.
AGING = 30_000

Order = tuple[int, int, str]


def due(action: Action) -> int:
    """Return the ms at which an action counts as arrived: earlier by AGING for each step of priority."""
    return action.arrival - AGING * action.priority


def order(action: Action) -> Order:
    """Return the key by which waiting actions are sorted."""
    return (due(action), action.seq, action.id)


class FcfsQueue:
    """Waiting actions in the order in which they are served. Adding and removing cost O(log n) and a memmove."""

    def __init__(self) -> None:
        self._orders: list[Order] = []
        self._actions: list[Action] = []

    @property
    def actions(self) -> Sequence[Action]:
        """The waiting actions themselves; not a copy."""
        return self._actions

    def add(self, action: Action) -> None:
        """Put an action in its place."""
        key = order(action)
        place = bisect_left(self._orders, key)
        self._orders.insert(place, key)
        self._actions.insert(place, action)

    def remove(self, action: Action) -> None:
        """Take an action out. Raises KeyError if it is not in the queue."""
        key = order(action)
        place = bisect_left(self._orders, key)
        if place == len(self._orders) or self._orders[place] != key:
            raise KeyError(f"action {action.id} does not wait in this queue")
        del self._orders[place], self._actions[place]

    def __len__(self) -> int:
        return len(self._actions)

    def __iter__(self) -> Iterator[Action]:
        return iter(self._actions)
