"""A node's report against the ledger, with a difference planted on either side."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from scheduler.audit import audit
from scheduler.envelope import Envelope
from scheduler.resizing import order_resize
from tangram_tasks.errors import TangramError
from tangram_tasks.holding import GrantsHeld, HeldGrant
from tangram_tasks.orders import KillAction
from tests.support.books import GENERATION, NODE, Leader


@pytest.fixture
async def leader() -> Leader:
    leader = Leader()
    await leader.admit(1, "narrow")
    return leader


def held(leader: Leader, units: int = 2) -> HeldGrant:
    grant = leader.grant_of(1)
    return HeldGrant(grant=grant, action=leader.books.entries.by_grant[grant].envelope.action, units=units)


async def report(leader: Leader, *rows: HeldGrant, generation: str = GENERATION, at: float | None = None) -> None:
    """Let the node report; by default now."""
    leader.ledger.time += 1
    made = leader.ledger.time if at is None else at
    await audit(leader.books, GrantsHeld(node=NODE, generation=generation, at=made, held=rows))
    await leader.act()
    leader.books.core.validate()


async def test_books_that_agree_are_left_alone(leader: Leader) -> None:
    for units in (2, 2, 0, 0):
        await report(leader, held(leader, units))
    assert leader.written.counted == []


async def test_other_units_than_the_ledger_says_are_taken_over_the_second_time(leader: Leader) -> None:
    await report(leader, held(leader, 3))
    assert leader.books.entries.by_grant[leader.grant_of(1)].record.units == 2  # type: ignore[union-attr]
    await report(leader, held(leader, 3))
    assert leader.books.entries.by_grant[leader.grant_of(1)].record.units == 3  # type: ignore[union-attr]
    assert dict(leader.books.core.holdings()[0].granted)["cpu"] == 3
    assert leader.written.counted == ["audit_healed"]
    await report(leader, held(leader, 3))
    assert leader.written.counted == ["audit_healed"], "it is healed"


async def test_a_difference_that_passes_is_none(leader: Leader) -> None:
    for units in (3, 2, 4, 2, 3):
        await report(leader, held(leader, units))
    assert leader.written.counted == []


async def test_reports_that_were_left_lying_count_as_one(leader: Leader) -> None:
    """A leader that stood still reads several at once; what was claimed since they were made is in none of them."""
    grant = leader.grant_of(1)
    leader.ledger.claimed = {grant}
    for at in (0.1, 0.2, 0.3):
        await report(leader, at=at)
    await report(leader, held(leader))
    assert leader.grant_of(1) == grant
    assert leader.written.counted == []


async def test_units_that_are_being_changed_are_no_difference(leader: Leader) -> None:
    order_resize(leader.books, leader.books.entries.by_grant[leader.grant_of(1)], 1)
    for _ in range(2):
        await report(leader, held(leader, 1))
    assert leader.written.counted == []


async def test_what_runs_without_a_grant_is_killed(leader: Leader) -> None:
    stray = HeldGrant(grant="0-1-x", action="gone", units=1)
    for _ in range(2):
        await report(leader, held(leader), stray)
    assert leader.written.take() == [KillAction(action="gone", grant="0-1-x")]


async def test_but_not_an_action_that_has_another_grant_there(leader: Leader) -> None:
    stray = held(leader).model_copy(update={"grant": "0-1-x"})
    for _ in range(2):
        await report(leader, held(leader), stray)
    assert leader.written.take() == []
    assert leader.written.counted == ["audit_healed"]


async def test_a_claimed_grant_that_its_node_does_not_know_is_taken_back(leader: Leader) -> None:
    grant = leader.grant_of(1)
    leader.books.outcomes = cast(Any, Unfinished())
    leader.ledger.claimed = {grant}
    await report(leader)
    assert leader.grant_of(1) == grant
    await report(leader)
    assert leader.grant_of(1) != grant, "it runs again"


async def test_whose_caller_is_not_told_that_a_node_died_which_lives(leader: Leader) -> None:
    leader.books.outcomes = cast(Any, outcomes := Unfinished())
    while grant := leader.grant_of(1):
        leader.ledger.claimed = {grant}
        await report(leader)
    (error,) = outcomes.failed
    assert re.match(r"node n lost action .* \(unit.narrow\); it was started 3 times", error)


async def test_one_that_nobody_has_claimed_is_left_to_its_start_lease(leader: Leader) -> None:
    grant = leader.grant_of(1)
    for _ in range(3):
        await report(leader)
    assert leader.grant_of(1) == grant
    assert leader.written.counted == []


async def test_an_earlier_process_of_the_node_is_not_heard(leader: Leader) -> None:
    for _ in range(2):
        await report(leader, held(leader, 4), generation="g0")
    assert leader.written.counted == []


class Unfinished:
    """Knows of no result; keeps the failures."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    async def fail(self, envelope: Envelope, error: TangramError) -> None:
        self.failed.append(str(error))

    async def finished(self, action: str) -> bool:
        return False
