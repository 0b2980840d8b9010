"""RL jobs: their shares, and whether they are paused or cancelled.

A job is known from its first action on. One that is paused waits outside of the core: its actions keep their places.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.books import Books
from scheduler.core.events import Cancelled, JobWeight, Submitted
from scheduler.entries import Entry
from tangram_tasks.sharing import JobRecord, SetJob
from tangram_tasks.wire import ActionHeader

#: So many jobs are remembered; beyond them, those that nobody set anything of are forgotten.
MOST = 1000


def introduce(books: Books, header: ActionHeader) -> None:
    """Take in what an action says of its job; what somebody set by hand counts more."""
    known = books.jobs.get(header.job)
    if not header.job or header.weight is None or (known and (known.by_hand or known.weight == header.weight)):
        return
    _enter(books, header.job, (known or JobRecord()).model_copy(update={"weight": header.weight}))
    while len(books.jobs) > MOST:
        stale = next((name for name, record in books.jobs.items() if record.state == "active"), None)
        if stale is None:
            break
        _forget(books, stale)


def change(books: Books, order: SetJob) -> list[str]:
    """Do what somebody wants with a job. Returns the actions that are to be cancelled."""
    record = books.jobs.get(order.job, JobRecord())
    before = record.state
    if order.weight is not None:
        record = record.model_copy(update={"weight": order.weight, "by_hand": True})
    if order.state is not None:
        record = record.model_copy(update={"state": order.state})
    _enter(books, order.job, record)
    if record.state == before:
        return []
    mine = [entry for entry in books.entries.by_action.values() if entry.envelope.header.job == order.job]
    if record.state == "cancelled":
        return [entry.envelope.action for entry in mine]
    for entry in mine:
        if entry.grant is None and record.state == "paused":
            books.feed(Cancelled(at=books.clock(), action=entry.envelope.action))
        elif entry.grant is None and not _has_eta(books, entry):
            offer(books, entry)
    return []


def is_cancelled(books: Books, job: str) -> bool:
    """Whether a job's actions must not run any more."""
    return job in books.jobs and books.jobs[job].state == "cancelled"


def offer(books: Books, entry: Entry) -> None:
    """Tell the core of an action that may start now, unless its job is paused."""
    record = books.jobs.get(entry.envelope.header.job)
    if record is None or record.state != "paused":
        now = books.clock()
        books.feed(Submitted(at=now, action=entry.as_action(now, books.estimates)))


def restore_jobs(books: Books, rows: Mapping[str, bytes]) -> None:
    """Begin with the jobs that the last leader knew."""
    for job, row in rows.items():
        books.jobs[job] = JobRecord.model_validate_json(row)
        books.feed(JobWeight(at=books.clock(), job=job, weight=books.jobs[job].weight))


def _has_eta(books: Books, entry: Entry) -> bool:
    return entry.envelope.eta is not None and entry.envelope.eta > books.clock()


def _enter(books: Books, job: str, record: JobRecord) -> None:
    known = books.jobs.get(job)
    books.jobs[job] = record
    books.batch.note(books.ledger.keys.jobs, job, record.model_dump_json())
    if known is None or known.weight != record.weight:
        books.feed(JobWeight(at=books.clock(), job=job, weight=record.weight))


def _forget(books: Books, job: str) -> None:
    del books.jobs[job]
    books.batch.note(books.ledger.keys.jobs, job, None)
    books.feed(JobWeight(at=books.clock(), job=job, weight=None))
