"""Quotas of API providers: set by hand, complained about by providers, and told about by the nodes that call."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.books import Books
from scheduler.core.quota import CallSent, LaneState, ProviderClosed, QuotaChanged, QuotaSpent, Spent
from scheduler.nodes import quota_of
from tangram_tasks.grants import DoneRecord
from tangram_tasks.resources import API_PREFIX
from tangram_tasks.sharing import (
    CallsSent,
    CloseProvider,
    LaneRecord,
    ProviderRecord,
    ProviderState,
    QuotaRecord,
    SetQuota,
)

#: A gate opens so much later than the provider asked for, ms: its clock is not ours.
LATER = 50


def set_quota(books: Books, order: SetQuota) -> None:
    """Let a provider have the quota that somebody set, from now on, also for the next leader."""
    row = None if order.quota is None else order.quota.model_dump_json()
    books.batch.note(books.ledger.keys.quotas, order.provider, row)
    quota = None if order.quota is None else quota_of(order.quota)
    books.feed(QuotaChanged(at=books.clock(), provider=order.provider, quota=quota))


def complained(books: Books, state: ProviderState) -> None:
    """Let nobody call a provider that has had enough; the other nodes hear of it, too."""
    now = books.clock()
    until = now + round(state.seconds * 1000) + LATER if state.seconds > 0 else now
    books.feed(ProviderClosed(at=now, provider=state.provider, until=until, lane=state.lane))
    if state.seconds > 0:
        order = CloseProvider(provider=state.provider, seconds=state.seconds, lane=state.lane)
        for node in books.nodes.alive.values():
            if node.kind == "api" and node.node != state.node:
                books.batch.order(node.node, order)


def calls_left(books: Books, report: CallsSent) -> None:
    """Take in when the calls of running actions left."""
    for action, at in report.sent.items():
        books.feed(CallSent(at=books.clock(), action=action, sent=round(at * 1000)))


def calls_ended(books: Books, record: DoneRecord) -> None:
    """Take in what an action that ends has spent; one without a report may have spent everything."""
    report, now = record.report, books.clock()
    if report is None or not report.key.startswith(API_PREFIX):
        return
    sent = round(report.sent_at * 1000)
    if record.grant in books.entries.by_grant:
        unsent = not report.calls
        told = CallSent(at=now, action=record.action, sent=sent or None, tokens=report.tokens, unsent=unsent)
        books.feed(told)
    elif report.calls:  # it ended while nobody led
        spent = LaneState(spent=(Spent(sent, report.calls, report.tokens or 0),))
        provider = report.key.removeprefix(API_PREFIX)
        books.feed(QuotaSpent(at=now, provider=provider, lanes=(*[LaneState()] * record.lane, spent)))


def write_spent(books: Books) -> None:
    """Write down how our keys stand where that has changed."""
    for provider, lanes in books.core.spent().items():
        record = ProviderRecord(lanes=tuple(map(_record, lanes)))
        books.batch.note(books.ledger.keys.spent, provider, record.model_dump_json())


def restore_quotas(books: Books, by_hand: Mapping[str, bytes], spent: Mapping[str, bytes]) -> None:
    """Begin with what was set by hand, and where the last leader ended."""
    now = books.clock()
    for provider, row in by_hand.items():
        quota = quota_of(QuotaRecord.model_validate_json(row))
        books.feed(QuotaChanged(at=now, provider=provider, quota=quota))
    for provider, row in spent.items():
        lanes = tuple(map(_state, ProviderRecord.model_validate_json(row).lanes))
        books.feed(QuotaSpent(at=now, provider=provider, lanes=lanes))


def _record(state: LaneState) -> LaneRecord:
    return LaneRecord(
        spent=state.spent,
        closed_until=state.closed_until,
        in_flight=state.in_flight,
        concurrency=state.concurrency,
    )


def _state(record: LaneRecord) -> LaneState:
    spent = tuple(Spent(*row) for row in record.spent)
    return LaneState(spent, record.closed_until, record.in_flight, record.concurrency)
