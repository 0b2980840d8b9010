"""The shell's memory of every action that waits or holds a grant, and the timers on them."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from scheduler.core.api import TOKENS
from scheduler.core.estimates import Estimates
from scheduler.core.events import Action
from scheduler.envelope import Envelope
from tangram_tasks.grants import GrantRecord

Timer = Literal["eta", "expires", "start_lease"]


@dataclass(slots=True)
class Entry:
    """One action between publish and end.

    Args:
        seq: place in the order of arrival.
        envelope: its message.
        arrival: ms.
        grant: the grant it holds, if it does.
        record: that grant in the ledger.
        successor: its next message. A retry (or a replacement) is published under the same id before the grant of
            the try that ends is given back.
        cancelled: somebody cancelled it while it held a grant; it must not wait again.
        unstarted: how often it was granted and nobody started it.
        refusals: how many nodes could not hold a grant of it although the books said so.
    """

    seq: int
    envelope: Envelope
    arrival: int
    grant: str | None = None
    record: GrantRecord | None = None
    successor: Entry | None = None
    cancelled: bool = False
    unstarted: int = 0
    refusals: int = 0

    @property
    def declared(self) -> tuple[int, ...]:
        """The durations in ms at each size, as declared."""
        return tuple(max(1, round(seconds * 1000)) for seconds in self.envelope.header.spec.durations())

    @property
    def sizes(self) -> tuple[int, ...]:
        """The allowed units of its key resource."""
        demand = self.envelope.header.spec.demand
        return demand.sizes[demand.key]

    def as_action(self, now: int, estimates: Estimates) -> Action:
        """Return what the core needs to know of it; its `max_queue` counts from `now`, ms."""
        spec = self.envelope.header.spec
        key = spec.demand.key
        waits = spec.max_queue
        return Action(
            id=self.envelope.action,
            seq=self.seq,
            arrival=self.arrival,
            demand={**spec.demand.minimum, **({TOKENS: spec.tokens} if spec.tokens else {})},
            key=key,
            sizes=self.sizes,
            durations=estimates.durations(self.envelope.task, spec.bucket, self.sizes, self.declared),
            trajectory=self.envelope.header.trajectory if spec.sandbox and spec.image is None else None,
            deadline=None if waits is None else now + round(waits * 1000),
            priority=spec.priority,
            malleable=spec.malleable,
            job=self.envelope.header.job,
            light=spec.light,
            service=spec.service,
        )


@dataclass(slots=True)
class Entries:
    """Entries by action id and by grant id, and a heap of moments at which one needs a look."""

    by_action: dict[str, Entry] = field(default_factory=dict)
    by_grant: dict[str, Entry] = field(default_factory=dict)
    timers: list[tuple[int, str, Timer]] = field(default_factory=list)
    waiting: Counter[str] = field(default_factory=Counter)  # by job

    def add(self, entry: Entry) -> bool:
        """Add a waiting entry; False if its action is known already."""
        if entry.envelope.action in self.by_action:
            return False
        self.by_action[entry.envelope.action] = entry
        self.waiting[entry.envelope.header.job] += 1
        return True

    def hold(self, entry: Entry, grant: str, record: GrantRecord) -> None:
        """Note that the entry's action now holds a grant."""
        if entry.grant is None and self.by_action.get(entry.envelope.action) is entry:
            self._no_longer_waits(entry)
        entry.grant, entry.record = grant, record
        self.by_action[entry.envelope.action] = entry
        self.by_grant[grant] = entry

    def forget(self, entry: Entry) -> None:
        """The action ended, or its message is taken out to be put back changed."""
        if entry.grant is not None:
            self.by_grant.pop(entry.grant, None)
        elif self.by_action.get(entry.envelope.action) is entry:
            self._no_longer_waits(entry)
        entry.grant = entry.record = None
        self.by_action.pop(entry.envelope.action, None)

    def _no_longer_waits(self, entry: Entry) -> None:
        job = entry.envelope.header.job
        self.waiting[job] -= 1
        if not self.waiting[job]:
            del self.waiting[job]

    def on_node(self, node: str) -> list[Entry]:
        """Return the entries that hold a grant on a node, oldest first."""
        held = [entry for entry in self.by_grant.values() if entry.record is not None and entry.record.node == node]
        return sorted(held, key=lambda entry: entry.seq)

    def set_timer(self, at: int, action: str, kind: Timer) -> None:
        """Ask for a look at an action at a moment, ms."""
        heapq.heappush(self.timers, (at, action, kind))

    def next_timer(self) -> int | None:
        """Return the ms of the next moment at which an action needs a look."""
        return self.timers[0][0] if self.timers else None

    def due(self, now: int) -> list[tuple[Entry, Timer]]:
        """Return the entries whose moment has come."""
        rows = []
        while self.timers and self.timers[0][0] <= now:
            _, action, kind = heapq.heappop(self.timers)
            if entry := self.by_action.get(action):
                rows.append((entry, kind))
        return rows
