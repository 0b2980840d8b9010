"""Fresh messages: checked, held until their eta, or dropped when they are copies that kombu sent home."""

from __future__ import annotations

import json
import logging

from scheduler import facts
from scheduler.books import Books
from scheduler.core.events import Cancelled, Released
from scheduler.entries import Entry
from scheduler.envelope import BadMessage, Envelope, id_of, parse
from scheduler.guard import handled
from scheduler.jobs import introduce, is_cancelled, offer
from scheduler.verdicts import fail, pronounce
from tangram_tasks.errors import InvalidAction, NoCapacity, ServiceUnavailable
from tangram_tasks.journal import is_recorded

logger = logging.getLogger(__name__)

#: Half the pause before an action that its node refused is granted again for the first time, s.
REFUSAL_PAUSE = 0.05
#: An action that was granted so often and never started is failed: no worker there can load it.
VAIN_GRANTS = 3
#: The same where copies came home unread. Higher, since each restart of a worker in good order sends some home, too.
SENT_HOME = 10


async def take_in(books: Books, seq: int, raw: bytes | str, *, fresh: bool = False) -> None:
    """Admit a message, or refuse it if that is not possible, lest it stop one leader after the other.

    A `fresh` one has just arrived.
    """
    if await handled(f"message {seq}", admit(books, seq, raw, fresh=fresh)):
        return
    action = id_of(raw)
    entry = books.entries.by_action.get(action or "")
    if entry is not None and entry.seq == seq:
        books.entries.forget(entry)
    await refuse(books, seq, raw, BadMessage("the scheduler could not handle it; see its log", action))


async def admit(books: Books, seq: int, raw: bytes | str, *, arrival: int | None = None, fresh: bool = False) -> None:
    """Take one pending message into the books.

    Args:
        books: the leader's.
        seq: its place in the order of arrival.
        raw: the message.
        arrival: ms; by default now. A message that comes back keeps its own.
        fresh: it has just arrived, and may be refused when too many wait.
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
    if envelope.id in books.ended:
        books.batch.drop(seq)
    elif envelope.action in books.cancelled or is_cancelled(books, envelope.header.job):
        await _revoke(books, entry)
    elif fresh and await _is_recorded(books, envelope):
        books.batch.drop(seq)
    elif fresh and (full := _objection(books, envelope)):
        await fail(books, entry, full)
    elif books.entries.add(entry):
        await submit(books, entry)
    elif _follows(known := books.entries.by_action[envelope.action], envelope):
        known.successor = entry  # it waits for the end of that one
    else:
        books.batch.drop(seq)  # a second copy


def _objection(books: Books, envelope: Envelope) -> NoCapacity | None:
    """Return why a new action may not wait; retries and copies of known ones are not new."""
    if envelope.try_number != (0, 0) or envelope.action in books.entries.by_action:
        return None
    return books.backpressure.objection(books.entries, envelope.header.job)


async def _is_recorded(books: Books, envelope: Envelope) -> bool:
    """Whether a call with a key ended while this copy of it was on its way."""
    if envelope.header.key is None or envelope.try_number != (0, 0):
        return False
    payload = await books.ledger.recorded(envelope.action)
    return payload is not None and is_recorded(json.loads(payload))


def _follows(known: Entry, envelope: Envelope) -> bool:
    """Whether a message follows the one that holds the grant: a retry of it, or a call with its key after it."""
    follows = known.envelope.try_number != envelope.try_number or envelope.header.key is not None
    return known.grant is not None and known.successor is None and follows


async def submit(books: Books, entry: Entry) -> None:
    """Tell the core of an entry, now or at its eta; one with a verdict ends."""
    now, envelope = books.clock(), entry.envelope
    if envelope.header.verdict is not None:
        books.entries.forget(entry)
        await pronounce(books, entry)
        return
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
    if await _is_recorded(books, entry.envelope):
        books.batch.drop(entry.seq)
        return
    books.entries.add(entry)
    if not_before > books.clock():
        books.entries.set_timer(not_before, entry.envelope.action, "eta")
    else:
        await submit(books, entry)


def give_back(books: Books, entry: Entry) -> None:
    """Give back what an action held, in memory: its grant has ended in the ledger."""
    if entry.envelope.header.verdict is None:  # a fail grant holds nothing
        books.tell(facts.Released(entry))
    books.entries.forget(entry)
    books.feed(Released(at=books.clock(), action=entry.envelope.action))


async def _revoke(books: Books, entry: Entry) -> None:
    """End a pending action that was cancelled and is in no other book: its caller first, then the ledger."""
    await books.outcomes.revoke(entry.envelope, "cancelled")
    books.tell(facts.Refused(entry.envelope, "cancelled"))
    books.batch.drop(entry.seq)


async def fail_in_vain(books: Books, entry: Entry, most: int) -> None:
    """Fail a waiting action that was granted `most` times and never started."""
    action = entry.envelope.action
    if entry.unstarted < most or action not in books.entries.by_action:
        return
    why = f"action {action} ({entry.envelope.task}) was granted {entry.unstarted} times and never started"
    books.feed(Cancelled(at=books.clock(), action=action))
    await fail(books, entry, ServiceUnavailable(f"{why}: do all workers have it in TANGRAM_IMPORTS?"))


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
        again = await undo_unstarted(books, entry)
        if again is not None:
            await fail_in_vain(books, again, SENT_HOME)


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
        await fail(books, entry, NoCapacity(f"{why}: see grants_refused in `tangram status`"))
        return
    books.entries.add(Entry(entry.seq, envelope, entry.arrival, refusals=refusals))
    again = books.clock() + round(REFUSAL_PAUSE * 1000 * 2**refusals)
    books.entries.set_timer(again, envelope.action, "eta")


async def undo_unstarted(books: Books, entry: Entry) -> Entry | None:
    """Take back a grant that no worker has claimed; the action waits again at its old place.

    Returns the entry that waits now, or None if the grant is used or has ended. A verdict is told without a worker.
    """
    if entry.grant is None:
        return None
    header = entry.envelope.header
    await books.commit()
    raw = entry.envelope.readmitted(header.attempts, header.verdict)
    books.batch.ungrant(entry.grant, entry.seq, raw, only_unstarted=True)
    (undone,) = await books.commit()
    if not undone:
        return None
    if header.verdict is not None:
        give_back(books, entry)
        await pronounce(books, entry, directly=True)
        return None
    return await resubmit(books, entry, raw, unstarted=entry.unstarted + 1)
