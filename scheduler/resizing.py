"""Other units for running actions: what is ordered from nodes, and what they answer."""

from __future__ import annotations

import logging

from scheduler.books import Books
from scheduler.core.events import Resized
from scheduler.entries import Entry
from tangram_tasks import wire
from tangram_tasks.resources import CPU

logger = logging.getLogger(__name__)


def order_resize(books: Books, entry: Entry, units: int) -> None:
    """Tell the node of a running action how many units it shall have; nothing if it holds no grant any more."""
    if entry.grant is not None and entry.record is not None:
        order = wire.ResizeAction(action=entry.envelope.action, grant=entry.grant, units=units)
        books.batch.order(entry.record.node, order)


def asked_by_hand(books: Books, request: wire.ResizeRequest) -> None:
    """Honour a client's wish, if the action runs, may change its size, and has that one among its sizes."""
    entry = books.entries.by_action.get(request.action)
    why = "it does not run" if entry is None or entry.grant is None else _objection(entry, request.units)
    if why is not None or entry is None:
        logger.warning("action %s is not resized to %d units: %s", request.action, request.units, why)
    else:
        order_resize(books, entry, request.units)


def resized(books: Books, event: wire.ActionResized) -> None:
    """Take in a node's answer. The core hears it also when the node refused, since it then knows what is held."""
    entry = books.entries.by_grant.get(event.grant)
    if entry is None or entry.record is None:
        return  # it ended meanwhile
    if not event.ok:
        logger.warning("node %s did not resize action %s: %s", event.node, event.action, event.reason)
    units = event.units or entry.record.units
    entry.record = entry.record.model_copy(update={"units": units})
    books.batch.resize(event.grant, entry.record)
    books.feed(Resized(at=books.clock(), action=event.action, units=units))


def _objection(entry: Entry, units: int) -> str | None:
    spec = entry.envelope.header.spec
    if not spec.malleable:
        return "it is not declared malleable"
    if spec.demand.key != CPU or units not in spec.demand.sizes[CPU]:
        return f"its sizes are {spec.demand.sizes}"
    return None
