"""The audit: what nodes say is granted there against the ledger. What differs twice in a row is put right.

Twice, since between two books that change there is always something on its way: an end, an answer, a start. The second
report must have been made after the first was looked at: a leader that stood still finds several, all of them old.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from scheduler.books import Books, Suspicion
from scheduler.reclaim import reclaim
from scheduler.resizing import take_word
from tangram_tasks import orders
from tangram_tasks.holding import GrantsHeld, HeldGrant

logger = logging.getLogger(__name__)

#: Kind of difference, grant, and the units that the node tells.
Mismatch = tuple[str, str, int]
UNITS, UNKNOWN, MISSING = "units", "unknown", "missing"


async def audit(books: Books, report: GrantsHeld) -> None:
    """Compare a node's report with the ledger, and heal what was wrong at the last report already.

    Units differ: the node's word counts, since its book is what the cores obey. The ledger does not know a grant: the
    node kills what runs under it. The node does not know one that was claimed: it is taken back as from a dead node.
    """
    node = report.node
    if books.nodes.generation(node) != report.generation:
        return
    last = books.suspicions.get(node)
    if last is not None and report.at <= last.since:
        return
    told = {row.grant: row for row in report.held}
    found = frozenset(_told_wrong(books, node, told)) | await _untold(books, node, told)
    wrong = found & last.found if last is not None else frozenset[Mismatch]()
    books.suspicions.pop(node, None)
    if rest := found - wrong:
        books.suspicions[node] = Suspicion(await books.ledger.now(), rest)
    for kind, grant, units in sorted(wrong):
        logger.error(
            "audit of node %s against the ledger: grant %s: %s (the node tells %d units)", node, grant, kind, units
        )
        books.batch.count("audit_healed")
        entry = books.entries.by_grant.get(grant)
        if entry is None:
            _kill(books, node, told[grant])
        elif kind == UNITS:
            take_word(books, entry, units)
        else:
            await reclaim(books, [entry])


def _told_wrong(books: Books, node: str, told: Mapping[str, HeldGrant]) -> Iterator[Mismatch]:
    ledger = {entry.grant: entry.record for entry in books.entries.on_node(node)}
    for grant, row in told.items():
        record = ledger.get(grant)
        if record is None:
            yield UNKNOWN, grant, row.units
        elif row.units not in (0, record.units) and grant not in books.unanswered:
            yield UNITS, grant, row.units


async def _untold(books: Books, node: str, told: Mapping[str, HeldGrant]) -> frozenset[Mismatch]:
    """Return the grants that the node claimed and does not know. One that nobody has claimed has its start lease."""
    missing = [entry.grant for entry in books.entries.on_node(node) if entry.grant and entry.grant not in told]
    return frozenset((MISSING, grant, 0) for grant in await books.ledger.running(missing))


def _kill(books: Books, node: str, row: HeldGrant) -> None:
    """End what runs without a grant, unless the action runs there with another one: a node kills by action."""
    known = books.entries.by_action.get(row.action)
    if known is None or known.record is None or known.record.node != node:
        books.batch.order(node, orders.KillAction(action=row.action, grant=row.grant))
