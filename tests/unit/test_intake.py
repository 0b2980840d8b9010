"""Grants that nobody starts, and grants that cannot be carried out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.intake import SENT_HOME, VAIN_GRANTS, fail_in_vain, take_in, undo_unstarted
from tests.support.books import Leader, message


class Told:
    """Outcomes that are only noted."""

    def __init__(self) -> None:
        self.failed: list[tuple[str, str]] = []

    async def fail(self, envelope: Any, error: Exception) -> None:
        self.failed.append((envelope.action, type(error).__name__))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def leader(told: Told) -> Leader:
    leader = Leader()
    leader.books.outcomes = told  # type: ignore[assignment]  # it does what is asked for here
    return leader


def _broken(*_: object) -> None:
    raise OverflowError("nobody thought of that")


async def test_a_copy_that_comes_home_unread_again_and_again_fails_in_the_end(leader: Leader, told: Told) -> None:
    await leader.admit(1, "narrow")
    for turn in range(SENT_HOME):
        assert not told.failed, f"turn {turn}"
        (entry,) = leader.books.entries.by_grant.values()
        copy = json.loads(message("narrow"))
        copy["headers"]["tangram_grant"] = {"id": entry.grant, "node": "n", "units": 2, "granted_at": 1.0}
        await take_in(leader.books, 100 + turn, json.dumps(copy))
        await leader.act()
    assert [error for _, error in told.failed] == ["ServiceUnavailable"]
    assert not leader.books.entries.by_action
    assert leader.books.core.holdings()[0].granted["cpu"] == 0


async def test_a_grant_that_was_never_started_three_times_fails(leader: Leader, told: Told) -> None:
    await leader.admit(1, "narrow")
    for turn in range(VAIN_GRANTS):
        assert not told.failed, f"turn {turn}"
        (entry,) = leader.books.entries.by_grant.values()
        again = await undo_unstarted(leader.books, entry)
        assert again is not None
        await fail_in_vain(leader.books, again, VAIN_GRANTS)
        await leader.act()
    assert [error for _, error in told.failed] == ["ServiceUnavailable"]


async def test_who_was_granted_a_node_that_is_not_there_waits_on_and_gives_its_units_back(leader: Leader) -> None:
    node = leader.books.nodes.alive.pop("n")
    await leader.admit(1, "narrow")
    assert leader.books.core.holdings()[0].granted["cpu"] == 0
    (entry,) = leader.books.entries.by_action.values()
    assert entry.grant is None
    leader.books.nodes.alive["n"] = node
    at = leader.books.entries.next_timer()
    assert at is not None
    leader.clock.now = at
    assert [kind for _, kind in leader.books.entries.due(at)] == ["eta"], "the desk submits it again then"


async def test_a_grant_that_cannot_be_written_is_tried_again(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("scheduler.decisions._header", _broken)
        await leader.admit(1, "narrow")
    assert leader.books.core.holdings()[0].granted["cpu"] == 0
    assert leader.books.entries.next_timer() is not None
