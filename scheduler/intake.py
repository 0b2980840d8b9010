"""Fresh messages: checked, held until their eta, or dropped when they are copies that kombu sent home."""

from __future__ import annotations

import logging

from scheduler import facts
from scheduler.books import Books
from scheduler.core.events import Released
from scheduler.entries import Entry
from scheduler.envelope import BadMessage, Envelope, id_of, parse
from scheduler.guard import handled
from scheduler.jobs import introduce, is_cancelled, offer
from tangram_tasks.errors import InvalidAction, NoCapacity

logger = logging.getLogger(__name__)

#: Half the pause before an action that its node refused is granted again for the first time, s.
REFUSAL_PAUSE = 0.05


async def take_in(books: Books, seq: int, raw: bytes | str) -> None:
    """Admit a message, or refuse it if that is not possible, lest it stop one leader after the other."""
    if await handled(f"message {seq}", admit(books, seq, raw)):
        return
    action = id_of(raw)
    entry = books.entries.by_action.get(action or "")
    if entry is not None and entry.seq == seq:
        books.entries.forget(entry)
    await refuse(books, seq, raw, BadMessage("the scheduler could not handle it; see its log", action))


async def admit(books: Books, seq: int, raw: bytes | str, *, arrival: int | None = None) -> None:
    """Take one pending message into the books.

    Args:
        books: the leader's.
        seq: its place in the order of arrival.
        raw: the message.
        arrival: ms; by default now. A message that comes back keeps its own.
    """
    try:
        envelope = parse(raw)
    except BadMessage as error:
        await refuse(books, seq, raw, error)
        return
    if envelope.grant is not None:
        await _take_home(books, seq, envelope)
        return
    entry = Entry(seq, envelope, books.clock() if arrival is None else arrival)
    introduce(books, envelope.header)
    if envelope.action in books.cancelled or is_cancelled(books, envelope.header.job):
        await _revoke(books, entry)
    elif books.entries.add(entry):
        submit(books, entry)
    elif _is_retry(known := books.entries.by_action[envelope.action], envelope):
        known.successor = entry  # it waits for the end of the try that published it
    else:
        books.batch.drop(seq)  # a second copy


def _is_retry(known: Entry, envelope: Envelope) -> bool:
    return known.grant is not None and known.successor is None and known.envelope.try_number != envelope.try_number


def submit(books: Books, entry: Entry) -> None:
    """Tell the core of an entry, now or at its eta."""
    now, envelope = books.clock(), entry.envelope
    books.tell(facts.Waits(entry))
    if envelope.expires is not None:
        books.entries.set_timer(envelope.expires, envelope.action, "expires")
    if envelope.eta is not None and envelope.eta > now:
        books.entries.set_timer(envelope.eta, envelope.action, "eta")
    else:
        offer(books, entry)


async def end_grant(books: Books, entry: Entry) -> None:
    """Forget an action whose grant ended in the ledger; its retry, if it published one, is next."""
    give_back(books, entry)
    if entry.successor is not None:
        await wait_again(books, entry, entry.successor)


async def resubmit(books: Books, entry: Entry, raw: str, *, unstarted: int = 0) -> Entry:
    """Let an entry wait again, with the given raw message, after its grant was taken back in the ledger.

    Returns the entry that waits now. `unstarted` is how often it was granted in vain so far.
    """
    give_back(books, entry)
    again = Entry(entry.seq, parse(raw), entry.arrival, refusals=entry.refusals, unstarted=unstarted)
    await wait_again(books, entry, again)
    return again


async def wait_again(books: Books, before: Entry, entry: Entry, *, not_before: int = 0) -> None:
    """Let an entry wait, unless somebody cancelled its action while it held a grant; until `not_before`, ms, aside."""
    if before.cancelled:
        await _revoke(books, entry)
        return
    books.entries.add(entry)
    if not_before > books.clock():
        books.entries.set_timer(not_before, entry.envelope.action, "eta")
    else:
        submit(books, entry)


def give_back(books: Books, entry: Entry) -> None:
    """Give back what an action held, in memory: its grant has ended in the ledger."""
    books.tell(facts.Released(entry))
    books.entries.forget(entry)
    books.feed(Released(at=books.clock(), action=entry.envelope.action))


async def _revoke(books: Books, entry: Entry) -> None:
    """End a pending action that was cancelled and is in no other book: its caller first, then the ledger."""
    await books.outcomes.revoke(entry.envelope, "cancelled")
    books.tell(facts.Refused(entry.envelope, "cancelled"))
    books.batch.drop(entry.seq)


async def refuse(books: Books, seq: int, raw: bytes | str, error: BadMessage) -> None:
    """Put a message among the dead ones, and tell its caller if its id could be read."""
    logger.warning("refused message %s: %s", error.action or "without an id", error)
    if error.action is not None:
        await books.outcomes.fail_unreadable(error.action, InvalidAction(f"the message was refused: {error}"))
    books.batch.bury(raw, str(error))
    books.batch.drop(seq)


async def _take_home(books: Books, seq: int, copy: Envelope) -> None:
    """A copy of a granted message came back. If its grant was never used, undo that; either way drop the copy."""
    books.batch.drop(seq)
    entry = books.entries.by_grant.get(copy.grant.id) if copy.grant else None
    if entry is not None:
        await undo_unstarted(books, entry)


async def readmit_refused(books: Books, entry: Entry) -> None:
    """Let an action wait again at its old place after its node could not hold the grant; fail it at `max_attempts`.

    The pause lets the node's books and ours come together; it doubles, since nothing says when they have.
    """
    envelope, refusals = entry.envelope, entry.refusals + 1
    give_back(books, entry)
    logger.warning("action %s was refused by its node, time %d", envelope.action, refusals)
    if entry.cancelled:
        await _revoke(books, entry)
        return
    if refusals >= envelope.header.spec.max_attempts:
        why = f"action {envelope.action} was granted {refusals} times to nodes that had no room for it"
        await books.outcomes.fail(envelope, NoCapacity(f"{why}: see grants_refused in `tangram status`"))
        books.tell(facts.Refused(envelope, NoCapacity.__name__, why))
        books.batch.drop(entry.seq)
        return
    books.entries.add(Entry(entry.seq, envelope, entry.arrival, refusals=refusals))
    again = books.clock() + round(REFUSAL_PAUSE * 1000 * 2**refusals)
    books.entries.set_timer(again, envelope.action, "eta")


async def undo_unstarted(books: Books, entry: Entry) -> Entry | None:
    """Take back a grant that no worker has claimed; the action waits again at its old place.

    Returns the entry that waits now, or None if the grant is used or has ended.
    """
    if entry.grant is None:
        return None
    await books.commit()
    raw = entry.envelope.readmitted(entry.envelope.header.attempts)
    books.batch.ungrant(entry.grant, entry.seq, raw, only_unstarted=True)
    (undone,) = await books.commit()
    return await resubmit(books, entry, raw, unstarted=entry.unstarted + 1) if undone else None
