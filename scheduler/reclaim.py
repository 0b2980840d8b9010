"""Dead nodes: their capacity goes first, then their grants are taken back, then their trajectories are given up."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from scheduler.books import Books
from scheduler.core.events import NodeLost as NodeLostEvent
from scheduler.entries import Entry
from scheduler.intake import end_grant, resubmit
from scheduler.residency import outlives
from tangram_tasks.errors import NodeLost
from tangram_tasks.keys import node_queue
from tangram_tasks.verdict import Verdict
from tangram_tasks.wire import NodeRecord

logger = logging.getLogger(__name__)


async def lose_nodes(books: Books, lost: Sequence[NodeRecord], announced: Mapping[str, NodeRecord]) -> None:
    """Give up nodes of which nothing was heard, that left, or whose process was replaced.

    All of them leave the core before any of their grants is taken back: nothing must be granted to the next dead one.

    Args:
        books: the leader's.
        lost: what they had announced.
        announced: what stands under their names now: nothing when a node left in order, its own old announcement
            when it fell silent, or that of a new process.
    """
    held = [entry for record in lost for entry in books.entries.on_node(record.node)]
    for record in lost:
        _lose(books, record, announced.get(record.node))
    await books.commit()
    await reclaim(books, held)


def _lose(books: Books, record: NodeRecord, announced: NodeRecord | None) -> None:
    if announced is None:
        logger.info("node %s left", record.node)
    else:
        logger.warning("node %s (generation %s) is lost", record.node, record.generation)
    kept = set()
    for name, trajectory in list(books.trajectories.items()):
        if record.node not in (trajectory.node, trajectory.home):
            continue
        if outlives(books, name, trajectory):
            kept.add(name)
        else:
            books.bury(name, NodeLost(f"node {record.node} died, and with it the sandbox of trajectory {name}"))
    books.feed(NodeLostEvent(at=books.clock(), node=record.node, kept=frozenset(kept)))
    silent = announced is not None and announced.generation == record.generation
    books.batch.forget_node(record.node, node_queue(record.kind, record.node), record=silent)


async def reclaim(books: Books, held: list[Entry]) -> None:
    """Take back grants whose node is gone or does not know them, and run again or fail each action.

    An action that had not started runs again, unless its sandbox is lost. One that had runs again if it may
    (`on_lost`, `max_attempts`), but never in a sandbox: what it did there stays, or went with it. One whose result is
    stored already just ends.
    """
    running = await books.ledger.running([entry.grant or "" for entry in held])
    for entry in held:
        await _reclaim(books, entry, started=entry.grant in running)


async def _reclaim(books: Books, entry: Entry, *, started: bool) -> None:
    envelope, spec, grant = entry.envelope, entry.envelope.header.spec, entry.grant
    if grant is None:
        return
    attempts = envelope.header.attempts + int(started)
    over = entry.successor is not None or (started and await books.outcomes.finished(envelope.action))
    if envelope.header.verdict is not None:
        again = False
    elif spec.sandbox and spec.image is None:
        again = not started and (envelope.header.trajectory or "") in books.trajectories
    else:
        again = not started or (spec.on_lost == "requeue" and attempts < spec.max_attempts)
    verdict = None
    if not again:
        verdict = envelope.header.verdict or Verdict.of(NodeLost(_epitaph(books, entry, attempts)))
    raw = "" if over else envelope.readmitted(attempts, verdict)
    await books.commit()
    books.batch.ungrant(grant, entry.seq, raw)
    (taken,) = await books.commit()
    if not taken:
        return  # it ended a moment ago; its DONE is on the way
    if raw:
        await resubmit(books, entry, raw)
    else:
        await end_grant(books, entry)


def _epitaph(books: Books, entry: Entry, attempts: int) -> str:
    node = entry.record.node if entry.record else "?"
    header = entry.envelope.header
    lives = entry.record is not None and books.nodes.generation(node) == entry.record.generation
    if not header.spec.sandbox or header.spec.image is not None:
        why = f"it was started {attempts} times"
    elif (header.trajectory or "") in books.trajectories:
        why = "what it did in its sandbox stays, so it does not run again"
    else:
        why = "its sandbox is gone"
    verb = "lost" if lives else "died under"
    return f"node {node} {verb} action {entry.envelope.action} ({entry.envelope.task}); {why}"
