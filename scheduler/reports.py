"""What nodes report: sandboxes that are ready, actions that were resized or that ended, nodes that came or went."""

from __future__ import annotations

import time

from pydantic import TypeAdapter

from scheduler import facts
from scheduler.audit import audit
from scheduler.books import Books
from scheduler.control import close_trajectory
from scheduler.core.events import SandboxReady
from scheduler.intake import admit, end_grant, readmit_refused
from scheduler.later import try_later
from scheduler.learning import learn
from scheduler.quotas import calls_ended, calls_left, complained
from scheduler.resizing import resized
from tangram_tasks import wire
from tangram_tasks.errors import SandboxError
from tangram_tasks.grants import DoneRecord
from tangram_tasks.holding import GrantsHeld
from tangram_tasks.sharing import CallsSent, ProviderState

_NODE_EVENT: TypeAdapter[wire.NodeEvent] = TypeAdapter(wire.NodeEvent)


async def obey_node_event(books: Books, payload: bytes) -> None:
    """Take in what a node tells beside the ends of actions. Raises pydantic's ValidationError."""
    match _NODE_EVENT.validate_json(payload):
        case wire.SandboxState() as state:
            _sandbox(books, state)
        case wire.ActionResized() as answer:
            resized(books, answer)
        case GrantsHeld() as report:
            await audit(books, report)
        case ProviderState() as state:
            complained(books, state)
        case CallsSent() as report:
            calls_left(books, report)
        case wire.NodeState():
            pass  # the next look at the nodes finds out


def _sandbox(books: Books, state: wire.SandboxState) -> None:
    record = books.trajectories.get(state.trajectory)
    if record is None or record.node != state.node:
        return  # closed meanwhile
    if state.ready:
        record = record.model_copy(update={"ready_at": time.time()})
        books.trajectories[state.trajectory] = record
        books.batch.trajectory(state.trajectory, record)
        books.feed(SandboxReady(at=books.clock(), trajectory=state.trajectory))
    else:
        why = SandboxError(f"no sandbox for trajectory {state.trajectory}: {state.reason}")
        close_trajectory(books, state.trajectory, why)


async def obey_done(books: Books, payload: bytes) -> None:
    """Take in the end of an action. Raises pydantic's ValidationError."""
    record = DoneRecord.model_validate_json(payload)
    calls_ended(books, record)
    entry = books.entries.by_grant.get(record.grant)
    if entry is None:
        return
    if entry.record is not None:
        books.quarantine.works(entry.record.node)
    if record.outcome == "later":
        await try_later(books, entry, record)
        return
    if record.outcome == "refused":
        await readmit_refused(books, entry)
        return
    learn(books, entry, record)
    books.tell(facts.Ended(entry, record))
    await end_grant(books, entry)
    if record.outcome == "requeue":
        raw = await books.ledger.client.hget(books.ledger.keys.pending, str(entry.seq))
        if raw is not None:
            await admit(books, entry.seq, raw, arrival=entry.arrival)
