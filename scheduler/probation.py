"""Puts nodes that start nothing into quarantine, and tries them again."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from scheduler.books import Books
from scheduler.nodes import joined_event
from scheduler.quarantine import QuarantineRecord
from tangram_tasks.wire import NodeRecord

logger = logging.getLogger(__name__)


def suspect(books: Books, node: str, action: str) -> None:
    """Note that a node did not start an action within the start lease; too many put it into quarantine."""
    known = books.nodes.alive.get(node)
    if known is None or not _can_be_spared(books, known):
        return
    record = books.quarantine.strike(node, known.generation, action, books.clock())
    if record is None:
        return
    pause = (record.until - books.clock()) / 1000
    logger.error("node %s answers but starts nothing: quarantine number %d, %.0f s", node, record.times, pause)
    books.batch.quarantine(node, record)
    books.feed(joined_event(known, books.clock(), cordoned=True))


def _can_be_spared(books: Books, node: NodeRecord) -> bool:
    """Whether others offer the API quotas of a node: a provider that nobody offers would make its calls infeasible."""
    others = (one.quotas for name, one in books.nodes.alive.items() if name != node.node)
    return set(node.quotas) <= {name for quotas in others for name in quotas}


def look_at_quarantine(books: Books) -> None:
    """Try nodes again whose quarantine is over; forget those that left."""
    for node in books.quarantine.keep_only({name: one.generation for name, one in books.nodes.alive.items()}):
        books.batch.end_quarantine(node)
    for node in books.quarantine.release(books.clock()):
        logger.warning("node %s was in quarantine and is tried again", node)
        books.feed(joined_event(books.nodes.alive[node], books.clock()))


def restore_quarantine(books: Books, records: Mapping[str, QuarantineRecord]) -> None:
    """Take over what an earlier leader found out, once the nodes are known."""
    books.quarantine.records.update(records)
    for node in records:
        if (known := books.nodes.alive.get(node)) is not None and known.generation == records[node].generation:
            books.feed(joined_event(known, books.clock(), cordoned=True))
