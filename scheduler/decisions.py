"""Carries out what the core decided."""

from __future__ import annotations

import logging
import time
from uuid import uuid4

from scheduler import facts
from scheduler.books import Books
from scheduler.core.events import (
    CloseSandbox,
    Decision,
    Grant,
    OpenSandbox,
    PageIn,
    RefuseSandbox,
    Reject,
    Released,
    Resize,
    TrajectoryClosed,
)
from scheduler.entries import Entry
from scheduler.guard import handled
from scheduler.outcomes import error_of
from scheduler.resizing import order_resize
from scheduler.verdicts import fail
from tangram_tasks import orders, wire
from tangram_tasks.errors import Infeasible, TangramError
from tangram_tasks.grants import GrantRecord
from tangram_tasks.keys import node_queue

logger = logging.getLogger(__name__)

#: An action whose grant could not be carried out waits anew after so many ms.
ASK_AGAIN = 500


async def act(books: Books) -> None:
    """Let the core decide on everything that was noted, and carry that out; also what carrying out brings about."""
    while books.events:
        for decision in _decided(books):
            done = await handled(decision, _one(books, decision))
            if not done and isinstance(decision, Grant):
                _ungranted(books, decision)


def _decided(books: Books) -> list[Decision]:
    """Let the core decide. What is no broken policy is raised: the next leader rebuilds a core that is in doubt."""
    try:
        return books.decide()
    except ValueError:  # a policy that is broken in one domain; the core keeps what the others decided
        logger.exception("the core could not decide")
        return []


async def _one(books: Books, decision: Decision) -> None:
    match decision:
        case Grant():
            _grant(books, decision)
        case Resize():
            if (entry := books.entries.by_action.get(decision.action)) is not None:
                order_resize(books, entry, decision.units)
        case PageIn():
            if decision.node in books.nodes.alive:
                order = orders.PageIn(service=decision.service, devices=decision.devices)
                books.batch.order(decision.node, order)
        case Reject():
            await _reject(books, decision)
        case OpenSandbox():
            _open(books, decision)
        case CloseSandbox():
            books.batch.order(decision.node, orders.CloseSandbox(trajectory=decision.trajectory))
        case RefuseSandbox():
            books.bury(decision.trajectory, Infeasible(decision.detail))
            books.feed(TrajectoryClosed(at=books.clock(), trajectory=decision.trajectory, reason=decision.detail))


def _grant(books: Books, decision: Grant) -> None:
    entry, node = books.entries.by_action.get(decision.action), books.nodes.alive.get(decision.node)
    now = books.clock()
    if entry is None or node is None:
        _ungranted(books, decision)
        return
    record = GrantRecord(
        seq=entry.seq,
        action=decision.action,
        node=node.node,
        generation=node.generation,
        units=decision.units,
        lane=decision.lane,
        at=now,
    )
    grant = f"{books.ledger.epoch}-{entry.seq}-{uuid4().hex[:8]}"
    header = _header(books, entry, grant, record)
    queue = node_queue(node.kind, node.node)
    books.batch.grant(grant, record, queue, entry.envelope.granted(header))
    books.entries.hold(entry, grant, record)
    books.tell(facts.Granted(entry, header))
    books.entries.set_timer(now + round(books.start_lease * 1000), decision.action, "start_lease")


def _ungranted(books: Books, decision: Grant) -> None:
    """Give back what cannot be granted; whoever waits still, asks again a little later: now it would get the same."""
    now = books.clock()
    books.feed(Released(at=now, action=decision.action))
    entry = books.entries.by_action.get(decision.action)
    if entry is not None and entry.grant is None:
        books.entries.set_timer(now + ASK_AGAIN, decision.action, "eta")


def _header(books: Books, entry: Entry, grant: str, record: GrantRecord) -> wire.GrantHeader:
    asked = entry.envelope.header
    now = time.time()
    published = asked.published_at or entry.arrival / 1000
    trajectory = books.trajectories.get(asked.trajectory or "")
    ready = trajectory.ready_at if trajectory and trajectory.ready_at else published
    return wire.GrantHeader(
        id=grant,
        node=record.node,
        units=record.units,
        lane=record.lane,
        granted_at=now,
        queue_s=max(0.0, now - published),
        sandbox_s=max(0.0, ready - published) if asked.spec.sandbox else 0.0,
        attempt=asked.attempts + 1,
        next_services=books.core.next_services(record.node) if asked.spec.service else (),
        egress=trajectory.egress if trajectory and asked.spec.image is None else None,
    )


async def _reject(books: Books, decision: Reject) -> None:
    entry = books.entries.by_action.get(decision.action)
    if entry is not None:
        await fail(books, entry, _error(books, entry, decision))


def _error(books: Books, entry: Entry, decision: Reject) -> TangramError:
    if decision.outcome in ("sandbox_lost", "trajectory_unknown"):
        known = books.epitaphs.get(entry.envelope.header.trajectory or "")
        if known is not None:
            return known
    return error_of(decision)


def _open(books: Books, decision: OpenSandbox) -> None:
    known = books.trajectories.get(decision.trajectory)
    if known is None:
        return  # it was closed in the same step
    generation = books.nodes.generation(decision.node)
    record = known.model_copy(update={"node": decision.node, "generation": generation, "ready_at": None})
    books.trajectories[decision.trajectory] = record
    books.batch.trajectory(decision.trajectory, record)
    books.batch.order(decision.node, orders.OpenSandbox(order=known.order))
