"""Actions as `celery inspect` and Flower show tasks."""

from __future__ import annotations

from typing import Any

from monitoring.words import demand_in_words, grant_in_words
from scheduler.books import Books
from scheduler.entries import Entry
from tangram_tasks.keys import ADMISSION_QUEUE

#: Rows of one answer, oldest actions first: an answer is one message through the broker.
LIMIT = 1000


def reserved_rows(books: Books) -> list[dict[str, Any]]:
    """Return the actions that wait for a grant."""
    return [_row(entry) for entry in _waiting(books, delayed=False)]


def scheduled_rows(books: Books) -> list[dict[str, Any]]:
    """Return the actions that wait for their eta."""
    return [
        {"eta": entry.envelope.content["headers"].get("eta"), "priority": 6, "request": _row(entry)}
        for entry in _waiting(books, delayed=True)
    ]


def active_rows(books: Books) -> list[dict[str, Any]]:
    """Return the actions that hold a grant."""
    return [_row(entry) for entry in list(books.entries.by_grant.values())[:LIMIT]]


def found_rows(books: Books, ids: list[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return those of the actions that are here, with "active" or "reserved"."""
    entries = (books.entries.by_action.get(name) for name in ids)
    return {
        entry.envelope.action: ("reserved" if entry.grant is None else "active", _row(entry))
        for entry in entries
        if entry is not None
    }


def waiting_entries(books: Books) -> list[Entry]:
    """Return everything that waits, also for its eta."""
    return [entry for entry in books.entries.by_action.values() if entry.grant is None]


def _waiting(books: Books, *, delayed: bool) -> list[Entry]:
    now = books.clock()
    rows = [
        entry
        for entry in waiting_entries(books)
        if (entry.envelope.eta is not None and entry.envelope.eta > now) is delayed
    ]
    return rows[:LIMIT]


def _row(entry: Entry) -> dict[str, Any]:
    envelope, record = entry.envelope, entry.record
    spec = envelope.header.spec
    shown = f"{envelope.content['headers'].get('kwargsrepr') or '{}'} needs {demand_in_words(spec.demand)}"
    if record is not None:
        shown += f", granted {grant_in_words(spec.demand.key, record.units)} on {record.node}"
    return {
        "id": envelope.action,
        "name": envelope.task,
        "args": envelope.content["headers"].get("argsrepr") or "()",
        "kwargs": shown,
        "type": envelope.task,
        "hostname": record.node if record else "",
        "time_start": record.at / 1000 if record else None,
        "acknowledged": record is not None,
        "delivery_info": {"exchange": "", "routing_key": ADMISSION_QUEUE, "priority": spec.priority},
        "worker_pid": None,
    }
