"""Decisions about actions that ended, or were revoked, in the step in which they were decided."""

from __future__ import annotations

from typing import Any, cast

import pytest

from scheduler.books import Books
from scheduler.core.admission import Admission
from scheduler.core.events import NodeJoined, Resize, Submitted
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
        ledger=Ledger(nobody, Keys(), 1), core=Admission(), nodes=NodeBook(5.0), outcomes=nobody, clock=lambda: 1
    )


async def test_a_grant_to_who_was_revoked_meanwhile_is_given_back(books: Books) -> None:
    books.feed(NodeJoined(0, "n", "cpu", {"cpu": 2, "memory": 100}))
    books.feed(Submitted(0, action("a1")))
    await act(books, start_lease=15.0)
    assert dict(books.core.holdings()[0].granted)["cpu"] == 0
    assert not books.entries.by_grant


async def test_a_resize_of_what_ended_meanwhile_orders_nothing(books: Books) -> None:
    books.decisions.append(Resize("a1", "n", 2))
    await act(books, start_lease=15.0)
    assert await books.commit() == []
