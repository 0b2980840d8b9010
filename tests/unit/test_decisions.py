"""Decisions about actions that ended, or were revoked, in the step in which they were decided."""

from __future__ import annotations

from typing import Any, cast

import pytest

from scheduler.books import Books
from scheduler.core.admission import Admission
from scheduler.core.events import CloseSandbox, Decision, Event, NodeJoined, OpenSandbox, Resize, Submitted, Tick
from scheduler.decisions import act
from scheduler.ledger import Ledger
from scheduler.nodes import NodeBook
from tangram_tasks.keys import Keys
from tests.support.core import action


@pytest.fixture
def books() -> Books:
    """The books of a leader that never commits: no server is needed."""
    nobody = cast(Any, None)
    return Books(
        ledger=Ledger(nobody, Keys(), 1),
        core=Admission(),
        nodes=NodeBook(5.0),
        outcomes=nobody,
        clock=lambda: 1,
        start_lease=15.0,
    )


async def test_a_grant_to_who_was_revoked_meanwhile_is_given_back(books: Books) -> None:
    books.feed(NodeJoined(0, "n", "cpu", {"cpu": 2, "memory": 100}))
    books.feed(Submitted(0, action("a1")))
    await act(books)
    assert dict(books.core.holdings()[0].granted)["cpu"] == 0
    assert not books.entries.by_grant


async def test_a_resize_of_what_ended_meanwhile_orders_nothing(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books.core, "handle_all", lambda _: [Resize("a1", "n", 2)])
    books.feed(Tick(0))
    await act(books)
    assert await books.commit() == []


async def test_what_arrived_in_one_step_is_decided_once(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    handle_all = books.core.handle_all

    def count(events: list[Event]) -> list[Decision]:
        told.append(len(events))
        return handle_all(events)

    monkeypatch.setattr(books.core, "handle_all", count)
    for place in range(20):
        books.feed(Submitted(0, action(f"a{place}")))
    await act(books)
    assert told == [20]
    assert len(books.core.waiting()) == 20


async def test_an_action_that_contradicts_itself_is_refused_before_the_others_are_decided(books: Books) -> None:
    books.feed(Submitted(0, action("a1")))
    with pytest.raises(ValueError, match="action a2 needs sizes that rise"):
        books.feed(Submitted(0, action("a2", sizes=(2, 1))))
    await act(books)
    assert [row.action for row in books.core.waiting()] == ["a1"]


async def test_a_broken_policy_is_survived_and_a_broken_core_is_not(
    books: Books, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (ValueError("this policy is broken"), KeyError("a1")):

        def broken(_: object, error: Exception = error) -> list[Decision]:
            raise error

        monkeypatch.setattr(books.core, "handle_all", broken)
        books.feed(Tick(0))
        if isinstance(error, ValueError):
            await act(books)
            assert "this policy is broken" in caplog.text
        else:
            with pytest.raises(KeyError):
                await act(books)


async def test_a_decision_that_cannot_be_carried_out_loses_no_other(
    books: Books, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decisions = [OpenSandbox("t1", "n"), CloseSandbox("t2", "n")]
    monkeypatch.setattr(books.core, "handle_all", lambda _: decisions)
    monkeypatch.setitem(books.trajectories, "t1", cast(Any, "no record"))
    closed: list[str] = []
    monkeypatch.setattr(books.batch, "order", lambda node, order: closed.append(order.trajectory))
    books.feed(Tick(0))
    await act(books)
    assert closed == ["t2"]
    assert "OpenSandbox(trajectory='t1', node='n') could not be handled and is skipped" in caplog.text
