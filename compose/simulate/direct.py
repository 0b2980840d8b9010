"""Baseline "direct": every rollout process calls the API itself, and backs off when the provider answers 429."""

from __future__ import annotations

from compose.simulate.driven import Scheduler
from scheduler.core.domain import API_PREFIX
from scheduler.core.events import Decision, Event, Grant, NodeJoined, Released, Submitted


class DirectCalls:
    """Starts API calls at once; everything else is the other scheduler's.

    Args:
        other: schedules what is no API call.
    """

    def __init__(self, other: Scheduler) -> None:
        self._other = other
        self._calls: set[str] = set()

    def next_wake(self, now: int) -> int | None:
        """Return when the other scheduler wants a Tick."""
        return self._other.next_wake(now)

    def handle(self, event: Event) -> list[Decision]:
        """Take in one event and return what follows from it."""
        match event:
            case NodeJoined(kind="api"):
                return []
            case Submitted(action=action) if action.key.startswith(API_PREFIX):
                self._calls.add(action.id)
                return [Grant(action.id, action.key, action.sizes[0])]
            case Released(action=name) if name in self._calls:
                self._calls.remove(name)
                return []
            case _:
                return self._other.handle(event)
