"""What the ends of actions teach: how long each kind of them really takes. Kept in Redis: leaders inherit it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence

from scheduler.books import Books
from scheduler.core.estimates import Estimates, Kind
from scheduler.entries import Entry
from tangram_tasks.grants import DoneRecord
from tangram_tasks.report import ActionReport

logger = logging.getLogger(__name__)


def learn(books: Books, entry: Entry, done: DoneRecord) -> None:
    """Take in how long an action took, if it ran to its end and succeeded: failures are short for other reasons."""
    if done.outcome != "ok" or done.report is None:
        return
    task, bucket = entry.envelope.task, entry.envelope.header.spec.bucket
    held = held_by_size(done.report, entry.sizes)
    if held:
        for kind in books.estimates.observe_resized(task, bucket, held, entry.sizes, entry.declared):
            row = books.estimates.row(kind)
            books.batch.estimate(field_of(kind), None if row is None else json.dumps(row))


def held_by_size(report: ActionReport, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return (units, ms) for each size that the body ran with; empty if it had one that is not allowed.

    A light action holds no units and counts at its only size.
    """
    changes = [*report.units_over_time] or [(0.0, report.units)]
    ends = [*(since for since, _ in changes[1:]), report.overhead_s + report.exec_s]
    held: dict[int, float] = {}
    for (since, units), end in zip(changes, ends, strict=True):
        held[units or sizes[0]] = held.get(units or sizes[0], 0.0) + max(0.0, end - since)
    if not held.keys() <= set(sizes):
        return []
    whole = sum(held.values()) or 1.0  # the body has the shares of the time for which its units were held
    took = {units: round(1000 * report.exec_s * seconds / whole) for units, seconds in held.items()}
    return [(units, ms) for units, ms in took.items() if ms > 0] or [(max(held, key=held.__getitem__), 1)]


def field_of(kind: Kind) -> str:
    """Return the name of a kind in Redis."""
    return json.dumps(kind)


def remember(estimates: Estimates, rows: Mapping[str, bytes]) -> None:
    """Enter what earlier leaders learned. A row that cannot be read is logged and left out."""
    for name, row in rows.items():
        try:
            task, bucket = json.loads(name)
            estimates.restore((task, bucket), json.loads(row))
        except (ValueError, TypeError, AttributeError) as error:
            logger.warning("the estimate of %s is ignored: %s", name, error)
