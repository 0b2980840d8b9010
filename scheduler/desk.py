"""One leader's desk: reads everything that arrived, lets the core decide on it once, writes the decisions back.

Whatever arrives is handled item by item, and an item that cannot be handled is logged and skipped (a message is
buried among the dead ones): no input may stop the scheduler, and none may come back to stop the next one.
"""

from __future__ import annotations

import logging
import time

from scheduler import facts
from scheduler.answers import answer
from scheduler.books import Books
from scheduler.control import close_trajectory, end_revoked, obey_control
from scheduler.core.events import Tick
from scheduler.decisions import act
from scheduler.entries import Entry, Timer
from scheduler.guard import handled
from scheduler.intake import VAIN_GRANTS, fail_in_vain, take_in, undo_unstarted
from scheduler.jobs import offer
from scheduler.nodes import joined_event
from scheduler.probation import look_at_quarantine, suspect
from scheduler.quotas import write_spent
from scheduler.reclaim import lose_nodes
from scheduler.recovery import recover
from scheduler.reports import obey_done, obey_node_event
from scheduler.residency import take_over
from scheduler.resizing import ask_again
from scheduler.stored import Inbox
from tangram_tasks.errors import SandboxError

logger = logging.getLogger(__name__)

#: Nodes and trajectory leases are looked at this often, s.
LOOK_EVERY = 0.5
#: Messages and stream entries taken per step.
LIMIT = 256


class Desk:
    """Runs the steps of one leader.

    Args:
        books: empty books of this epoch.
    """

    def __init__(self, books: Books) -> None:
        self._books = books
        self._looked = time.monotonic()
        self._look_due = True
        self._patience_until = 0.0

    async def recover(self) -> None:
        """Rebuild the memory from the ledger; call once, before the first step."""
        await recover(self._books)
        await act(self._books)
        await self._books.commit()

    async def step(self) -> bool:
        """Do everything that is due. Returns whether more may be waiting already."""
        books, began = self._books, time.monotonic()
        if self._look_due or time.monotonic() - self._looked >= LOOK_EVERY:
            await handled("the look at the nodes", self._look())
        inbox = await books.ledger.inbox(LIMIT, messages=not books.paused)
        await self._hear(inbox)
        for seq, raw in inbox.messages:
            await take_in(books, seq, raw, fresh=True)
        for entry, kind in books.entries.due(books.clock()):
            await handled(f"action {entry.envelope.action}, whose {kind} is due", self._due(entry, kind))
        self._tick()
        await act(books)
        answer(books)
        write_spent(books)
        keys = books.ledger.keys
        for stream, rows in ((keys.control, inbox.control), (keys.events, inbox.events), (keys.done, inbox.done)):
            books.batch.read(stream, (entry for entry, _ in rows))
        await books.commit()
        books.tell(facts.Stepped(time.monotonic() - began))
        full = any(len(rows) == LIMIT for rows in (inbox.messages, inbox.done, inbox.control, inbox.events))
        return full or bool(books.questions)

    def seconds_to_next_look(self) -> float:
        """How long nothing will be due, unless something arrives."""
        now = self._books.clock()
        wake = self._books.core.next_wake(now)
        moments = [at for at in (wake, self._books.entries.next_timer()) if at is not None]
        until_look = 0.0 if self._look_due else self._looked + LOOK_EVERY - time.monotonic()
        return max(0.001, min([until_look, *((moment - now) / 1000 for moment in moments)]))

    @property
    def paused(self) -> bool:
        """Whether new actions are left on the admission list."""
        return self._books.paused

    async def _hear(self, inbox: Inbox) -> None:
        books = self._books
        for _, payload in inbox.control:
            await handled("a control message", obey_control(books, payload))
        for _, payload in inbox.events:
            self._look_due |= await handled("a node's event", obey_node_event(books, payload))
        for _, payload in inbox.done:
            await handled("the end of an action", obey_done(books, payload))

    def _tick(self) -> None:
        now = self._books.clock()
        wake = self._books.core.next_wake(now)
        if wake is not None and wake <= now:
            self._books.feed(Tick(at=now))

    async def _due(self, entry: Entry, kind: Timer) -> None:
        books, waiting = self._books, entry.grant is None
        if kind == "eta" and waiting:
            offer(books, entry)
        elif kind == "expires" and waiting:
            await end_revoked(books, entry, "expired")
        elif kind == "start_lease" and entry.record is not None and self._overdue(entry.record.at):
            await self._start_again(entry, entry.record.node)

    def _overdue(self, granted_at: int) -> bool:
        """Whether a grant is as old as the start lease: the action may hold a younger one than the timer was for."""
        return self._books.clock() - granted_at >= self._books.start_lease * 1000

    async def _start_again(self, entry: Entry, node: str) -> None:
        books, action = self._books, entry.envelope.action
        if books.nodes.runs(node, entry.grant or ""):
            # The broker forgot that it was claimed.
            books.entries.set_timer(books.clock() + round(books.start_lease * 1000), action, "start_lease")
            return
        again = await undo_unstarted(books, entry)
        suspect(books, node, action)
        if again is None:
            return
        if books.quarantine.holds(node):
            again.unstarted = 0  # that was the node's fault
        logger.warning("action %s did not start on %s, time %d", action, node, again.unstarted)
        await fail_in_vain(books, again, VAIN_GRANTS)

    async def _look(self) -> None:
        """Look at the nodes and at the trajectories' leases."""
        books, timeout = self._books, self._books.nodes.timeout
        announced, now = await books.ledger.nodes()
        if time.monotonic() - self._looked > timeout / 2:
            # The broker or we stood still: every node seems silent, and none may be.
            self._patience_until = time.monotonic() + timeout
        self._looked, self._look_due = time.monotonic(), False
        if time.monotonic() >= self._patience_until or not books.nodes.silent(announced, now):
            lost, joined = books.nodes.update(announced, now)
            await lose_nodes(books, lost, announced)
            for record in joined:
                verb = "drains" if record.draining else "is here"
                logger.info("node %s %s with %s", record.node, verb, record.capacity or dict(record.quotas))
                books.feed(joined_event(record, books.clock(), cordoned=books.quarantine.holds(record.node)))
                take_over(books, record)
        look_at_quarantine(books)
        for name, trajectory in list(books.trajectories.items()):
            if trajectory.order.expires_at < time.time():
                close_trajectory(books, name, SandboxError(f"trajectory {name} is over its max_lifetime"))
        ask_again(books)
        books.tell(facts.Looked(books))
