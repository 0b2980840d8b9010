"""What a worker reports as granted to it: from START to the moment at which its DONE is told."""

from __future__ import annotations

from typing import Any, cast

import pytest
from redis.exceptions import ConnectionError as BrokerGone

from tangram_tasks.grants import DoneRecord
from tangram_tasks.holding import HeldGrant
from tangram_tasks.wire import GRANT_HEADER, GrantHeader
from workers.claims import Claims
from workers.node import Node
from workers.recollection import Recollection
from workers.request import GrantRefused
from workers.runtime import Runtime

GRANT = GrantHeader(id="1-1-x", node="n", units=2, granted_at=1.0)
ROW = HeldGrant(grant="1-1-x", action="a", units=3)


class FakeClaims:
    """A ledger that may refuse a claim, lose a grant, or be away."""

    claimable = held = True
    away = False

    def start(self, grant: str) -> bool:
        return self.claimable

    def holds(self, grant: str) -> bool:
        return self.held

    def broker_run(self) -> str:
        return "run"

    def done(self, record: DoneRecord, *, requeue: bool = False) -> bool:
        if self.away:
            raise BrokerGone
        return self.held


class FakeNode:
    """A node that counts three units for every action, and remembers what it was to cancel."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    def cancel(self, action: str) -> bool:
        self.cancelled.append(action)
        return True

    def units_of(self, action: str, grant: str) -> int:
        return 3


class Request(dict[str, Any]):
    id = "a"


@pytest.fixture
def claims() -> FakeClaims:
    return FakeClaims()


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def runtime(node: FakeNode, claims: FakeClaims) -> Runtime:
    memory = Recollection(cast(Claims, claims), "n", "g")
    return Runtime(cast(Node, node), cast(Claims, claims), memory)


REQUEST = Request({GRANT_HEADER: GRANT.model_dump()})


def test_a_grant_is_held_from_its_claim_to_its_end(runtime: Runtime) -> None:
    assert runtime.held() == ()
    runtime.claim(REQUEST)
    assert runtime.held() == (ROW,)
    runtime.end(GRANT, "a", requeue=False)
    assert runtime.held() == ()


def test_a_copy_that_may_not_run_holds_nothing(runtime: Runtime, claims: FakeClaims) -> None:
    claims.claimable = False
    with pytest.raises(GrantRefused):
        runtime.claim(REQUEST)
    assert runtime.held() == ()


def test_an_end_that_could_not_be_told_leaves_it_held_until_it_is(runtime: Runtime, claims: FakeClaims) -> None:
    runtime.claim(REQUEST)
    claims.away = True
    runtime.end(GRANT, "a", requeue=False)
    assert runtime.held() == (ROW,)
    claims.away = False
    runtime.tell_late()
    assert runtime.held() == ()


def test_a_grant_that_was_taken_back_is_not_held(runtime: Runtime, claims: FakeClaims) -> None:
    runtime.claim(REQUEST)
    claims.held = False
    with pytest.raises(GrantRefused):
        runtime._fence(GRANT)
    assert runtime.held() == ()


def test_the_kill_of_an_earlier_grant_spares_what_the_action_runs_now(runtime: Runtime, node: FakeNode) -> None:
    runtime.claim(REQUEST)
    runtime.kill("a", "1-0-x")
    assert node.cancelled == []
    runtime.kill("a", GRANT.id)
    assert node.cancelled == ["a"]
