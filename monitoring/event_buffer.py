"""Between the scheduler and the event bus: what happened, in a bounded buffer that may overflow but never waits.

An action is announced as waiting only if it still waits after a moment: most are granted at once, and for those the
worker's own events are enough. Columns of many actions travel in one event.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, starmap
from typing import Any

from monitoring.words import demand_in_words, grant_in_words
from scheduler.envelope import Envelope
from scheduler.facts import Ended, Fact, Granted, Refused, Waits

#: Seconds an action must have waited before it is announced.
SETTLE = 0.25
#: What one call of `take` gives at most, so that the sender's share of the processor stays small.
BURST = 500

Cells = tuple[Envelope, str, int, float, float | None]  # envelope, node, units, queued, overhead; seconds
Column = tuple[str, str, str, str, str, str]  # id, demand, granted, node, queued, overhead


@dataclass(frozen=True, slots=True)
class Burst:
    """What is to be sent now.

    Args:
        waiting: actions that wait and were not announced yet.
        columns: what the plug-in of Flower shows.
        over: actions that will not run.
    """

    waiting: list[Envelope]
    columns: list[Column]
    over: list[Refused]


class EventBuffer:
    """Takes facts from the scheduler's loop, gives them to the sender's thread.

    Args:
        limit: facts of each kind that are kept; further ones are dropped and counted.
        clock: seconds.
    """

    def __init__(self, limit: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self.enabled = False
        self.dropped = 0
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[float, Envelope]] = {}
        self._columns: deque[Cells] = deque()
        self._over: deque[Refused] = deque()

    def hear(self, fact: Fact) -> None:
        """Note a fact; cheap, and nothing while nobody listens."""
        if not self.enabled:
            return
        with self._lock:
            match fact:
                case Waits(entry):
                    self._note_waiting(entry.envelope)
                case Granted(entry, grant):
                    self._waiting.pop(entry.envelope.action, None)
                    self._keep(self._columns, (entry.envelope, grant.node, grant.units, grant.queue_s, None))
                case Ended(entry, record) if record.report is not None:
                    report = record.report
                    cells = entry.envelope, report.node, report.units, report.queue_s, report.overhead_s
                    self._keep(self._columns, cells)
                case Refused(envelope):
                    self._waiting.pop(envelope.action, None)
                    self._keep(self._over, fact)
                case _:
                    pass

    def take(self) -> Burst:
        """Return what is to be sent, at most BURST of each kind; the rest stays."""
        settled = self._clock() - SETTLE
        with self._lock:
            due = [name for name, (since, _) in islice(self._waiting.items(), BURST) if since <= settled]
            waiting = [self._waiting.pop(name)[1] for name in due]
            cells = [self._columns.popleft() for _ in range(min(BURST, len(self._columns)))]
            over = [self._over.popleft() for _ in range(min(BURST, len(self._over)))]
        return Burst(waiting, [*map(_asked, waiting), *starmap(_column, cells)], over)

    def _note_waiting(self, envelope: Envelope) -> None:
        if len(self._waiting) < self._limit:
            self._waiting[envelope.action] = (self._clock(), envelope)
        else:
            self.dropped += 1

    def _keep(self, kind: deque[Any], row: Any) -> None:
        if len(kind) < self._limit:
            kind.append(row)
        else:
            self.dropped += 1


def _asked(envelope: Envelope) -> Column:
    return envelope.action, demand_in_words(envelope.header.spec.demand), "", "", "", ""


def _column(envelope: Envelope, node: str, units: int, queue_s: float, overhead_s: float | None) -> Column:
    demand = envelope.header.spec.demand
    overhead = "" if overhead_s is None else f"{overhead_s * 1000:.1f} ms"
    granted = grant_in_words(demand.key, units)
    return envelope.action, demand_in_words(demand), granted, node, f"{queue_s:.3f} s", overhead
