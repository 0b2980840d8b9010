"""What the live page shows: one moment of a deployment and the last minute of grants, from the leader's books."""

from __future__ import annotations

import time
from collections import deque
from itertools import islice
from typing import Any

from monitoring.action_rows import waiting_entries
from monitoring.words import demand_in_words
from scheduler.books import Books
from scheduler.core.domain import in_words
from scheduler.core.views import Holdings
from scheduler.entries import Entry
from scheduler.facts import Ended, Fact

#: Seconds of history, bars in it, waiting actions with their reasons.
WINDOW, BARS, QUEUE = 60.0, 600, 50
#: With more waiting than this no reasons are given: the core would have to list everybody.
REASONS = 2000


class Scene:
    """Remembers the grants that ended lately; bounded, whatever happens."""

    def __init__(self) -> None:
        self._over: deque[dict[str, Any]] = deque(maxlen=BARS)

    def hear(self, fact: Fact) -> None:
        """Note the end of an action."""
        if isinstance(fact, Ended) and fact.entry.record is not None:
            self._over.append({**_bar(fact.entry), "end": time.time()})

    def view(self, books: Books) -> dict[str, Any]:
        """Return what the page draws; call in the scheduler's loop."""
        now = time.time()
        running = [_bar(entry) for entry in islice(books.entries.by_grant.values(), BARS)]
        rows = books.core.holdings()
        waiting = len(books.entries.by_action) - len(books.entries.by_grant)
        return {
            "now": now,
            "paused": books.paused,
            "waiting": waiting,
            "running": len(books.entries.by_grant),
            "trajectories": len(books.trajectories),
            "places": [_place(row) for row in rows],
            "bars": [*(bar for bar in self._over if bar["end"] > now - WINDOW), *running],
            "queue": _queue(books, rows, now, with_reasons=waiting <= REASONS),
        }


def _bar(entry: Entry) -> dict[str, Any]:
    record, key = entry.record, entry.envelope.header.spec.demand.key
    assert record is not None  # only who holds a grant has a bar
    return {
        "id": entry.envelope.action,
        "task": entry.envelope.task,
        "place": record.node if key in ("cpu", "gpu") else key,
        "units": record.units,
        "start": record.at / 1000,
        "end": None,
    }


def _place(row: Holdings) -> dict[str, Any]:
    key = next((name for name in ("cpu", "gpu") if name in row.capacity), row.domain)
    return {
        "name": row.domain,
        "key": key,
        "capacity": row.capacity[key],
        "granted": row.granted.get(key, 0),
        "waiting": row.waiting,
        "all": f"{in_words(row.granted)} of {in_words(row.capacity)}",
    }


def _queue(books: Books, rows: list[Holdings], now: float, *, with_reasons: bool) -> list[dict[str, Any]]:
    entries = waiting_entries(books)[:QUEUE]
    places = {row.domain: row for row in rows}
    where = {row.action: row for row in books.core.waiting()} if with_reasons else {}
    queue = []
    for entry in entries:
        seat = where.get(entry.envelope.action)
        reason = _reason(books, entry, None if seat is None else places.get(seat.domain or ""))
        queue.append(
            {
                "id": entry.envelope.action,
                "task": entry.envelope.task,
                "demand": demand_in_words(entry.envelope.header.spec.demand),
                "waited": max(0.0, now - entry.arrival / 1000),
                "position": None if seat is None else seat.position,
                "reason": reason if with_reasons else "too many wait to say",
            }
        )
    return queue


def _reason(books: Books, entry: Entry, place: Holdings | None) -> str:
    """Return why an action waits, as far as one glance tells."""
    envelope = entry.envelope
    spec = envelope.header.spec
    if envelope.eta is not None and envelope.eta > books.clock():
        return "its eta has not come"
    if place is not None:
        free = {name: amount - place.granted.get(name, 0) for name, amount in place.capacity.items() if amount}
        lacks = [name for name, amount in spec.demand.minimum.items() if name in free and free[name] < amount]
        if lacks:
            return f"{place.domain} has {in_words({name: max(0, free[name]) for name in lacks})} free"
        return f"{place.domain}: others are before it, or the policy gives its units to somebody else now"
    if spec.sandbox and spec.image is None:
        return "its sandbox is not ready"
    return f"no live node has {spec.demand.key}"
