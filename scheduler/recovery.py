"""Rebuilds a new leader's memory from the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from scheduler.books import Books
from scheduler.control import open_trajectory, read_control, set_network
from scheduler.core.events import Restored, TrajectoryOpened, TrajectoryRestored
from scheduler.entries import Entry
from scheduler.envelope import BadMessage, parse
from scheduler.intake import refuse, take_in
from scheduler.jobs import restore_jobs
from scheduler.learning import remember
from scheduler.nodes import joined_event
from scheduler.probation import restore_quarantine
from scheduler.quotas import restore_quotas
from scheduler.reclaim import reclaim
from scheduler.residency import outlives, take_over
from scheduler.stored import Snapshot, TrajectoryRecord
from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.egress import SetNetwork
from tangram_tasks.errors import InvalidAction, NodeLost
from tangram_tasks.grants import GrantRecord
from tangram_tasks.keys import node_queue
from tangram_tasks.orders import OpenSandbox
from tangram_tasks.wire import NodeRecord

logger = logging.getLogger(__name__)

#: How often silent nodes are looked for during recovery, s.
LOOK = 0.25


async def recover(books: Books) -> None:
    """Read the ledger and feed the core: nodes, trajectories, grants, then waiting actions in their old order."""
    await _find_nodes(books)
    books.paused = await books.ledger.paused()
    snapshot = await books.ledger.snapshot()
    restore_quarantine(books, snapshot.quarantine)
    books.ended.update(snapshot.ended)
    books.cancelled.update({action: until for action, until in snapshot.cancelled.items() if until > time.time()})
    remember(books.estimates, snapshot.estimates)
    restore_jobs(books, snapshot.jobs)
    restore_quotas(books, snapshot.quotas, snapshot.spent)
    for name, record in snapshot.trajectories.items():
        _restore_trajectory(books, name, record)
    orphans = [
        entry
        for grant, record in sorted(snapshot.grants.items(), key=lambda row: row[1].seq)
        if (entry := await _restore_grant(books, snapshot, grant, record)) is not None
    ]
    await _obey_backlog(books)
    for seq, raw in sorted(snapshot.pending.items()):
        await take_in(books, seq, raw)
    await reclaim(books, orphans)
    for node in books.nodes.alive.values():
        take_over(books, node)
    logger.info(
        "recovered %d nodes, %d trajectories, %d grants (%d of lost nodes), %d waiting",
        len(books.nodes.alive),
        len(books.trajectories),
        len(snapshot.grants),
        len(orphans),
        len(snapshot.pending),
    )


async def _obey_backlog(books: Books) -> None:
    """A leader died between taking actions and acting on what was said before them: openings and networks come first.

    An opening may be seen twice. Of changes of a network, which may have been made already, only the last one counts:
    to make an earlier one again would open for a moment what was closed.
    """
    wishes, read = dict[str, SetNetwork](), list[str]()
    for message, payload in await books.ledger.control_backlog():
        with contextlib.suppress(InvalidAction):
            asked = read_control(payload)
            if isinstance(asked, OpenTrajectory):
                open_trajectory(books, asked)
            elif isinstance(asked, SetNetwork):
                wishes[asked.trajectory] = asked
                read.append(message)
    for wish in wishes.values():
        set_network(books, wish)
    books.batch.read(books.ledger.keys.control, read)


async def _find_nodes(books: Books) -> None:
    """Wait for silent nodes to beat: after a restart of the broker all of them look dead for a moment.

    They also have to say what they run and what they ended, of which the broker may have forgotten the last second.
    """
    run, patience = await books.ledger.broker_run(), books.nodes.timeout
    announced, now = await books.ledger.nodes()
    while patience > 0 and any(
        now - record.beat > books.nodes.timeout or not _confirmed(record, run) for record in announced.values()
    ):
        await asyncio.sleep(LOOK)
        patience -= LOOK
        announced, now = await books.ledger.nodes()
    _, joined = books.nodes.update({name: one for name, one in announced.items() if _confirmed(one, run)}, now)
    for record in joined:
        books.feed(joined_event(record, books.clock()))
    for name, record in announced.items():
        if name not in books.nodes.alive:  # nobody else would ever take a dead node's announcement away
            books.batch.forget_node(name, node_queue(record.kind, name), record=True)


def _confirmed(record: NodeRecord, run: str) -> bool:
    return record.broker in ("", run)


def _restore_trajectory(books: Books, name: str, record: TrajectoryRecord) -> None:
    books.trajectories[name] = record
    at, memory = books.clock(), record.order.memory
    if not record.node and (not record.home or outlives(books, name, record)):
        books.feed(TrajectoryOpened(at=at, trajectory=name, memory=memory, node=record.home or None))
    elif record.node and outlives(books, name, record):
        ready = record.ready_at is not None
        if not ready:  # the order, or the node's answer, may be lost; opening twice does no harm
            books.batch.order(record.node, OpenSandbox(order=record.order))
        books.feed(TrajectoryRestored(at=at, trajectory=name, memory=memory, node=record.node, ready=ready))
    else:
        node = record.node or record.home
        books.bury(name, NodeLost(f"node {node} died, and with it the sandbox of trajectory {name}"))


async def _restore_grant(books: Books, snapshot: Snapshot, grant: str, record: GrantRecord) -> Entry | None:
    """Restore one grant; returns its entry if its node is gone. It ends if its message is of no use to this version."""
    raw = snapshot.raws[grant]
    try:
        entry = Entry(record.seq, parse(raw), record.at)
    except BadMessage as error:
        await refuse(books, record.seq, raw, error)
        books.batch.ungrant(grant, record.seq)
        return None
    books.entries.hold(entry, grant, record)
    if books.nodes.generation(record.node) != record.generation:
        return entry
    now = books.clock()
    if entry.envelope.header.verdict is None:  # a fail grant holds nothing
        action = entry.as_action(now, books.estimates)
        books.feed(Restored(at=now, action=action, node=record.node, units=record.units, lane=record.lane))
    books.entries.set_timer(now + round(books.start_lease * 1000), record.action, "start_lease")
    return None
