"""Runs actions through a core in virtual time: each ends when its granted size says, resizes take effect at once."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.core.admission import Admission
from scheduler.core.events import Action, Event, Grant, Released, Resize, Submitted, Tick


@dataclass
class Start:
    """One action that was granted.

    Args:
        action: it.
        at: ms.
        overtaken: who arrived earlier, could run there, and still waited.
    """

    action: Action
    at: int
    overtaken: list[Action] = field(default_factory=list)


class VirtualTime:
    """One node or provider and its time.

    Args:
        core: with `instant_resize`.
    """

    def __init__(self, core: Admission) -> None:
        self.core = core
        self.starts: list[Start] = []
        self._now = 0
        self._waiting: dict[str, Action] = {}
        self._running: dict[str, tuple[Action, int, float]] = {}  # action, since, share that is left
        self._rank: dict[str, int] = {}
        self._ends: list[tuple[int, str, int]] = []

    def run(self, arrivals: Iterable[Action]) -> None:
        """Let all arrive and end. Fails if somebody waits for ever."""
        coming = sorted(arrivals, key=lambda one: one.arrival, reverse=True)
        while coming or self._running or self._waiting:
            moments = [coming[-1].arrival] if coming else []
            moments += [self._ends[0][0]] if self._ends else []
            wake = self.core.next_wake(self._now)
            moments += [] if wake is None else [max(wake, self._now + 1)]
            assert moments, f"{sorted(self._waiting)} wait for ever"
            self._now = min(moments)
            if coming and coming[-1].arrival == self._now:
                one = coming.pop()
                self._waiting[one.id] = one
                self._feed(Submitted(self._now, one))
            elif self._ends and self._ends[0][0] == self._now:
                _, name, rank = heapq.heappop(self._ends)
                if name in self._running and self._rank[name] == rank and self._end(name) <= self._now:
                    del self._running[name]
                    self._feed(Released(self._now, name))
            else:
                self._feed(Tick(self._now))

    def _feed(self, event: Event) -> None:
        for decision in self.core.handle(event):
            if isinstance(decision, Grant):
                action = self._waiting.pop(decision.action)
                earlier = [one for one in self._waiting.values() if one.arrival < action.arrival]
                self.starts.append(Start(action, self._now, earlier))
                self._running[action.id] = (action, self._now, 1.0)
                self._at_size(action, decision.units)
            elif isinstance(decision, Resize):
                action, since, left = self._running[decision.action]
                done = (self._now - since) / action.durations[self._rank[action.id]]
                self._running[action.id] = (action, self._now, max(0.0, left - done))
                self._at_size(action, decision.units)

    def _at_size(self, action: Action, units: int) -> None:
        self._rank[action.id] = action.sizes.index(units) if units else 0
        heapq.heappush(self._ends, (self._end(action.id), action.id, self._rank[action.id]))

    def _end(self, name: str) -> int:
        action, since, left = self._running[name]
        return since + round(left * action.durations[self._rank[name]])
