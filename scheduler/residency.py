"""Where sandboxes live: opening trajectories, and taking over what a node still holds of an earlier process."""

from __future__ import annotations

import logging
import time

from scheduler.books import Books
from scheduler.core.events import SandboxReady, TrajectoryOpened
from scheduler.stored import TrajectoryRecord
from tangram_tasks import control_messages, orders, wire
from tangram_tasks.egress import ChangeEgress
from tangram_tasks.errors import SandboxError

logger = logging.getLogger(__name__)


def begin(books: Books, order: control_messages.OpenTrajectory) -> None:
    """Let a new trajectory wait for its sandbox; a fork only for one beside what it is copied from.

    The fork of a sandbox that has run nothing yet is like any new one, and is made as one.
    """
    name, node = order.trajectory, None
    if order.fork_of is not None:
        origin = books.trajectories.get(order.fork_of)
        if origin is None:
            books.bury(name, SandboxError(f"trajectory {name} forks {order.fork_of}, which is not open"))
            return
        if origin.ready_at is not None:
            node = origin.node
        else:
            order = order.model_copy(update={"fork_of": None})
    record = TrajectoryRecord(order=order, home=node or "", generation=books.nodes.generation(node or ""))
    books.trajectories[name] = record
    books.batch.trajectory(name, record)
    books.feed(TrajectoryOpened(at=books.clock(), trajectory=name, memory=order.memory, node=node))


def outlives(books: Books, name: str, record: TrajectoryRecord) -> bool:
    """Whether the process that now has the node's name holds the trajectory's sandbox, or what it is a fork of."""
    node, sandbox = (record.node, name) if record.node else (record.home, record.order.fork_of or "")
    return books.nodes.generation(node) == record.generation or books.nodes.holds(node, sandbox)


def take_over(books: Books, node: wire.NodeRecord) -> None:
    """Go on with the sandboxes that a node, which has just joined, says it holds; let it remove those of nobody."""
    for name in node.trajectories:
        known = books.trajectories.get(name)
        if known is None or known.node != node.node:
            books.batch.order(node.node, orders.CloseSandbox(trajectory=name))
            continue
        logger.info("node %s still holds the sandbox of trajectory %s", node.node, name)
        record = known.model_copy(
            update={"generation": node.generation, "ready_at": known.ready_at or time.time()},
        )
        books.trajectories[name] = record
        books.batch.trajectory(name, record)
        if record.egress is not None:  # an order to change it may have gone to the earlier process
            books.batch.order(node.node, ChangeEgress(trajectory=name, egress=record.egress))
        books.feed(SandboxReady(at=books.clock(), trajectory=name))
