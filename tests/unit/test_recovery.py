"""What a new leader finds in the ledger and cannot handle is refused; it stops no leader, and not the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from scheduler.core.events import Action
from scheduler.core.waiting import check
from scheduler.recovery import recover
from scheduler.stored import Snapshot
from tangram_tasks.errors import TangramError
from tangram_tasks.grants import GrantRecord
from tests.support.books import GENERATION, NODE, Leader, message

OLD = message("narrow").replace('"v": 1', '"v": 0')  # as an earlier version may have accepted it


class Callers:
    """Keeps what callers are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def fail_unreadable(self, action: str, error: TangramError) -> None:
        self.told.append(str(error))


@pytest.fixture
def callers() -> Callers:
    return Callers()


@pytest.fixture
def leader(callers: Callers) -> Leader:
    leader = Leader()
    leader.books.outcomes = cast(Any, callers)
    return leader


def snapshot(**fields: Any) -> Snapshot:
    return replace(Snapshot({}, {}, {}, {}, {}, {}), **fields)


async def test_a_grant_whose_message_cannot_be_read_ends(leader: Leader, callers: Callers) -> None:
    record = GrantRecord(seq=1, action="a", node=NODE, generation=GENERATION, units=2, at=1)
    leader.ledger.kept = snapshot(grants={"1-1-x": record}, raws={"1-1-x": OLD.encode()})
    await recover(leader.books)
    assert leader.written.ungranted == ["1-1-x"]
    (told,) = callers.told
    assert "the message was refused" in told


async def test_a_message_that_cannot_be_handled_is_refused(
    leader: Leader, callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = iter([_fail])
    monkeypatch.setattr("scheduler.books.check", lambda action: next(checks, check)(action))
    leader.ledger.kept = snapshot(pending={1: message("narrow").encode(), 2: message("wide").encode()})
    await recover(leader.books)
    (told,) = callers.told
    assert "the scheduler could not handle it" in told
    assert len(leader.books.entries.by_action) == 1, "the other one waits"


def _fail(action: Action) -> None:
    raise ValueError("its fields contradict each other")
