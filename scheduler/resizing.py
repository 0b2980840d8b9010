"""Other units for running actions: what is ordered from nodes, and what they answer."""

from __future__ import annotations

import logging
from dataclasses import replace

from scheduler.books import Books, Unanswered
from scheduler.core.events import Resized
from scheduler.entries import Entry
from tangram_tasks import control_messages, orders, wire
from tangram_tasks.resources import CPU

logger = logging.getLogger(__name__)

#: An order without an answer is sent again after so many ms, so often in all.
PATIENCE, TRIES = 2000, 5


def order_resize(books: Books, entry: Entry, units: int) -> None:
    """Tell the node of a running action how many units it shall have; nothing if it holds no grant any more."""
    if entry.grant is not None:
        last, now = books.unanswered.get(entry.grant), books.clock()
        turn = max(now, last.turn + 1 if last else 0)
        _send(books, entry, Unanswered(units, turn, now))


def ask_again(books: Books) -> None:
    """Send orders again whose answers are overdue; in the end, take it that the node has changed nothing.

    If it did, or does so later, its audit says so. Whoever waits for units is never left with an open order.
    """
    now = books.clock()
    for grant, order in list(books.unanswered.items()):
        entry = books.entries.by_grant.get(grant)
        if entry is None or entry.record is None:
            del books.unanswered[grant]  # it ended meanwhile
        elif now - order.at >= PATIENCE and order.tries < TRIES:
            _send(books, entry, replace(order, at=now, tries=order.tries + 1))
        elif now - order.at >= PATIENCE:
            del books.unanswered[grant]
            books.batch.count("resizes_unanswered")
            action, node = entry.envelope.action, entry.record.node
            logger.error("node %s did not answer %d orders to resize action %s", node, TRIES, action)
            books.feed(Resized(at=now, action=action, units=entry.record.units))


def _send(books: Books, entry: Entry, order: Unanswered) -> None:
    if entry.grant is None or entry.record is None:
        return
    books.unanswered[entry.grant] = order
    message = orders.ResizeAction(action=entry.envelope.action, grant=entry.grant, units=order.units, turn=order.turn)
    books.batch.order(entry.record.node, message)


def asked_by_hand(books: Books, request: control_messages.ResizeRequest) -> None:
    """Honour a client's wish, if the action runs, may change its size, and has that one among its sizes."""
    entry = books.entries.by_action.get(request.action)
    why = "it does not run" if entry is None or entry.grant is None else _objection(entry, request.units)
    if why is not None or entry is None:
        logger.warning("action %s is not resized to %d units: %s", request.action, request.units, why)
    else:
        order_resize(books, entry, request.units)


def resized(books: Books, event: wire.ActionResized) -> None:
    """Take in a node's answer. The core hears it also when the node refused, since it then knows what is held.

    Only the answer to the latest order counts: an earlier one was followed by another, or asked twice.
    """
    entry, order = books.entries.by_grant.get(event.grant), books.unanswered.get(event.grant)
    if entry is None or entry.record is None:
        books.unanswered.pop(event.grant, None)
        return  # it ended meanwhile
    if order is not None and order.turn != event.turn:
        return
    books.unanswered.pop(event.grant, None)
    if not event.ok:
        logger.warning("node %s did not resize action %s: %s", event.node, event.action, event.reason)
    take_word(books, entry, event.units or entry.record.units)


def take_word(books: Books, entry: Entry, units: int) -> None:
    """Enter everywhere that a running action holds so many units: its node says so."""
    if entry.grant is not None and entry.record is not None:
        entry.record = entry.record.model_copy(update={"units": units})
        books.batch.resize(entry.grant, entry.record)
        books.feed(Resized(at=books.clock(), action=entry.envelope.action, units=units))


def _objection(entry: Entry, units: int) -> str | None:
    spec = entry.envelope.header.spec
    if not spec.malleable:
        return "it is not declared malleable"
    if spec.demand.key != CPU or units not in spec.demand.sizes[CPU]:
        return f"its sizes are {spec.demand.sizes}"
    return None
