"""Ends pending actions with an error, so that everybody hears of it whom Celery would tell.

An action that other tasks listen to (errbacks, chords, chains) gets a *fail grant*: no units, on any live node. The
worker raises the error in its place, and Celery does the rest as for any failure: it knows the tasks, we do not.
"""

from __future__ import annotations

import logging
from time import time
from uuid import uuid4

from scheduler import facts
from scheduler.books import Books
from scheduler.entries import Entry
from scheduler.envelope import parse
from tangram_tasks.errors import TangramError
from tangram_tasks.grants import GrantRecord
from tangram_tasks.keys import node_queue
from tangram_tasks.verdict import Verdict
from tangram_tasks.wire import GrantHeader, NodeRecord

logger = logging.getLogger(__name__)


async def fail(books: Books, entry: Entry, error: TangramError) -> None:
    """End a waiting action with an error; the core must have forgotten it, or never known it."""
    logger.info("action %s (%s) fails: %s", entry.envelope.action, entry.envelope.task, error)
    books.entries.forget(entry)
    if not entry.envelope.has_listeners:
        books.tell(facts.Refused(entry.envelope, type(error).__name__, str(error)))
        await _tell_caller(books, entry, error)
        return
    raw = entry.envelope.readmitted(entry.envelope.header.attempts, Verdict.of(error))
    books.batch.pend(entry.seq, raw)
    await pronounce(books, Entry(entry.seq, parse(raw), entry.arrival))


async def pronounce(books: Books, entry: Entry, *, directly: bool = False) -> None:
    """End a pending action that carries a verdict and is in no other book.

    Args:
        books: the leader's.
        entry: its message has a verdict.
        directly: no worker can be asked, or none answered: tell the caller, and whom of the others we can.
    """
    verdict = entry.envelope.header.verdict
    if verdict is None:
        raise ValueError(f"action {entry.envelope.action} has no verdict")
    if not directly:
        books.tell(facts.Refused(entry.envelope, verdict.error, str(verdict.as_error())))
    node = None if directly or not entry.envelope.has_listeners else _teller(books, entry)
    if node is None:
        await _tell_caller(books, entry, verdict.as_error())
    else:
        _grant_failure(books, entry, node)


async def _tell_caller(books: Books, entry: Entry, error: TangramError) -> None:
    """The caller first, then the ledger."""
    await books.outcomes.fail(entry.envelope, error)
    books.batch.drop(entry.seq)


def _teller(books: Books, entry: Entry) -> NodeRecord | None:
    """Choose a live node, in turn; one of the action's own kind, if there is one, knows its task for sure."""
    kind = entry.envelope.header.spec.demand.key.partition(":")[0]
    usable = [record for name, record in books.nodes.alive.items() if not books.quarantine.holds(name)]
    nodes = [record for record in usable if record.kind == kind] or usable
    return nodes[entry.seq % len(nodes)] if nodes else None


def _grant_failure(books: Books, entry: Entry, node: NodeRecord) -> None:
    now, action = books.clock(), entry.envelope.action
    record = GrantRecord(seq=entry.seq, action=action, node=node.node, generation=node.generation, units=0, at=now)
    grant = f"{books.ledger.epoch}-{entry.seq}-{uuid4().hex[:8]}"
    header = GrantHeader(
        id=grant, node=node.node, units=0, granted_at=time(), attempt=entry.envelope.header.attempts + 1
    )
    books.batch.grant(grant, record, node_queue(node.kind, node.node), entry.envelope.granted(header))
    books.entries.hold(entry, grant, record)
    books.entries.set_timer(now + round(books.start_lease * 1000), action, "start_lease")
