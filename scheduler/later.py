"""Actions whose provider refused or lost their call: they wait again at their old place, and not for ever."""

from __future__ import annotations

import logging

from scheduler.books import Books
from scheduler.entries import Entry
from scheduler.envelope import parse
from scheduler.intake import give_back, wait_again
from tangram_tasks.grants import DoneRecord

logger = logging.getLogger(__name__)


async def try_later(books: Books, entry: Entry, record: DoneRecord) -> None:
    """Let an action wait again, not before the pause that its node asks for.

    Its worker has put the message back; the new one also says how often it was tried and what that took. A try that
    sent nothing does not count.
    """
    report, header = record.report, entry.envelope.header
    sent = report is not None and report.calls > 0
    raw = entry.envelope.tried(header.tries + sent, header.spent + (report.exec_s if report else 0.0))
    books.batch.note(books.ledger.keys.pending, str(entry.seq), raw)
    logger.info("action %s is tried again in %.1f s", entry.envelope.action, record.wait)
    give_back(books, entry)
    again = Entry(entry.seq, parse(raw), entry.arrival)
    await wait_again(books, entry, again, not_before=books.clock() + round(record.wait * 1000))
