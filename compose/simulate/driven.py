"""What the engine drives."""

from __future__ import annotations

from typing import Protocol

from scheduler.core.events import Decision, Event


class Scheduler(Protocol):
    """The real `scheduler.core.admission.Admission`, or a baseline that speaks the same events and decisions."""

    def handle(self, event: Event) -> list[Decision]:
        """Take in one event and return what follows from it."""

    def next_wake(self, now: int) -> int | None:
        """Return the earliest ms, `now` or later, at which a Tick would change something, or None."""
