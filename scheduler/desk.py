"""One leader's desk: reads everything that arrived, feeds the core, writes the decisions back."""

from __future__ import annotations

import logging
import time

from pydantic import TypeAdapter, ValidationError

from scheduler.books import Books
from scheduler.core.events import Cancelled, SandboxReady, Submitted, Tick, TrajectoryClosed, TrajectoryOpened
from scheduler.decisions import act
from scheduler.entries import Entry, Timer
from scheduler.intake import admit, end_grant, readmit_refused, undo_unstarted
from scheduler.ledger import CANCEL_MEMORY, TrajectoryRecord
from scheduler.nodes import joined_event
from scheduler.reclaim import lose_node
from scheduler.recovery import recover
from scheduler.resizing import asked_by_hand, resized
from tangram_tasks import wire
from tangram_tasks.errors import SandboxError

logger = logging.getLogger(__name__)

_CONTROL: TypeAdapter[wire.ControlMessage] = TypeAdapter(wire.ControlMessage)
_NODE_EVENT: TypeAdapter[wire.NodeEvent] = TypeAdapter(wire.NodeEvent)

#: Nodes and trajectory leases are looked at this often, s.
LOOK_EVERY = 0.5
#: Messages and stream entries taken per step.
LIMIT = 256


class Desk:
    """Runs the steps of one leader.

    Args:
        books: empty books of this epoch.
        start_lease: seconds after which an unstarted grant is taken back.
    """

    def __init__(self, books: Books, start_lease: float) -> None:
        self._books = books
        self._start_lease = start_lease
        self._next_look = 0.0

    async def recover(self) -> None:
        """Rebuild the memory from the ledger; call once, before the first step."""
        await recover(self._books, self._start_lease)
        await act(self._books, self._start_lease)
        await self._books.commit()

    async def step(self) -> bool:
        """Do everything that is due. Returns whether more may be waiting already."""
        books = self._books
        if time.monotonic() >= self._next_look:
            await self._look()
        inbox = await books.ledger.inbox(LIMIT)
        for _, payload in inbox.control:
            await self._control(payload)
        for _, payload in inbox.events:
            self._node_event(payload)
        for _, payload in inbox.done:
            await self._done(payload)
        for seq, raw in inbox.messages:
            await admit(books, seq, raw)
        for entry, kind in books.entries.due(books.clock()):
            await self._due(entry, kind)
        self._tick()
        await act(books, self._start_lease)
        keys = books.ledger.keys
        for stream, rows in ((keys.control, inbox.control), (keys.events, inbox.events), (keys.done, inbox.done)):
            books.batch.read(stream, (entry for entry, _ in rows))
        await books.commit()
        return any(len(rows) == LIMIT for rows in (inbox.messages, inbox.done, inbox.control, inbox.events))

    def seconds_to_next_look(self) -> float:
        """How long nothing will be due, unless something arrives."""
        now = self._books.clock()
        moments = [timers[0][0] for timers in [self._books.entries.timers] if timers]
        wake = self._books.core.next_wake(now)
        if wake is not None:
            moments.append(wake)
        until_look = max(0.0, self._next_look - time.monotonic())
        return max(0.001, min([until_look, *((moment - now) / 1000 for moment in moments)]))

    def _tick(self) -> None:
        now = self._books.clock()
        wake = self._books.core.next_wake(now)
        if wake is not None and wake <= now:
            self._books.feed(Tick(at=now))

    # -- what arrives

    async def _control(self, payload: bytes) -> None:
        books = self._books
        try:
            message = _CONTROL.validate_json(payload)
        except ValidationError:
            logger.warning("refused a control message: %s", payload[:200])
            return
        match message:
            case wire.OpenTrajectory() if message.trajectory not in books.trajectories:
                record = TrajectoryRecord(order=message)
                books.trajectories[message.trajectory] = record
                books.batch.trajectory(message.trajectory, record)
                books.feed(TrajectoryOpened(at=books.clock(), trajectory=message.trajectory, memory=message.memory))
            case wire.CloseTrajectory():
                self._close(message.trajectory, SandboxError(f"trajectory {message.trajectory} was closed"))
            case wire.CancelAction():
                await self._cancel(message.action)
            case wire.ResizeRequest():
                asked_by_hand(books, message)

    def _close(self, trajectory: str, why: SandboxError) -> None:
        books = self._books
        if trajectory in books.trajectories:
            books.bury(trajectory, why)
            books.feed(TrajectoryClosed(at=books.clock(), trajectory=trajectory, reason=str(why)))

    async def _cancel(self, action: str) -> None:
        books = self._books
        entry = books.entries.by_action.get(action)
        if entry is None:
            books.cancelled[action] = time.time() + CANCEL_MEMORY
            books.batch.remember_cancelled(action, time.time())
        elif entry.grant is None or entry.record is None:
            await self._end_revoked(entry, "cancelled")
        else:
            books.batch.order(entry.record.node, wire.KillAction(action=action, grant=entry.grant))

    async def _end_revoked(self, entry: Entry, reason: str) -> None:
        books = self._books
        await books.outcomes.revoke(entry.envelope, reason)
        books.feed(Cancelled(at=books.clock(), action=entry.envelope.action))
        books.batch.drop(entry.seq)
        books.entries.forget(entry)

    def _node_event(self, payload: bytes) -> None:
        books = self._books
        event = _NODE_EVENT.validate_json(payload)
        if isinstance(event, wire.NodeState):
            self._next_look = 0.0
            return
        if isinstance(event, wire.ActionResized):
            resized(books, event)
            return
        record = books.trajectories.get(event.trajectory)
        if record is None or record.node != event.node:
            return  # closed meanwhile
        if event.ready:
            record = record.model_copy(update={"ready_at": time.time()})
            books.trajectories[event.trajectory] = record
            books.batch.trajectory(event.trajectory, record)
            books.feed(SandboxReady(at=books.clock(), trajectory=event.trajectory))
        else:
            self._close(event.trajectory, SandboxError(f"no sandbox for trajectory {event.trajectory}: {event.reason}"))

    async def _done(self, payload: bytes) -> None:
        books = self._books
        record = wire.DoneRecord.model_validate_json(payload)
        entry = books.entries.by_grant.get(record.grant)
        if entry is None:
            return
        if record.outcome == "refused":
            await readmit_refused(books, entry)
            return
        end_grant(books, entry)
        if record.outcome == "requeue":
            raw = await books.ledger.client.hget(books.ledger.keys.pending, str(entry.seq))
            if raw is not None:
                await admit(books, entry.seq, raw, arrival=entry.arrival)

    # -- what is due

    async def _due(self, entry: Entry, kind: Timer) -> None:
        books, waiting = self._books, entry.grant is None
        if kind == "eta" and waiting:
            books.feed(Submitted(at=books.clock(), action=entry.as_action()))
        elif kind == "expires" and waiting:
            await self._end_revoked(entry, "expired")
        elif kind == "start_lease" and entry.record is not None:
            held = books.clock() - entry.record.at
            if held >= self._start_lease * 1000 and await undo_unstarted(books, entry):
                logger.warning("action %s did not start on %s: granted anew", entry.envelope.action, entry.record)

    async def _look(self) -> None:
        books = self._books
        self._next_look = time.monotonic() + LOOK_EVERY
        announced, now = await books.ledger.nodes()
        lost, joined = books.nodes.update(announced, now)
        for record in lost:
            await lose_node(books, record, announced.get(record.node))
        for record in joined:
            logger.info("node %s joined with %s", record.node, record.capacity or dict(record.quotas))
            books.feed(joined_event(record, books.clock()))
        for name, trajectory in list(books.trajectories.items()):
            if trajectory.order.expires_at < time.time():
                self._close(name, SandboxError(f"trajectory {name} is over its max_lifetime"))
