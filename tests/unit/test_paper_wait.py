"""Policy "paper_wait" by hand: a candidate waits for a release when that ends it sooner, and never for nothing."""

from __future__ import annotations

from scheduler.core.completion import Running
from scheduler.core.policy import make_policy
from tests.support.core import action

REWARD = action("a1", sizes=(4, 8, 16), durations=(20_000, 10_000, 5_000))


def decide(policy: str, free: int, running: list[Running]) -> list[tuple[str, int]]:
    decided = make_policy(policy, 16).decide(0, {"cpu": free}, running, [REWARD])
    return [(one.id, units) for one, units in decided]


def test_it_waits_for_units_that_are_worth_it() -> None:
    soon = [Running(1_000, {"cpu": 12})]
    # 4 units now end it after 20 s; 8 units in 1 s after 11 s.
    assert decide("paper", 4, soon) == [("a1", 4)]
    assert decide("paper_wait", 4, soon) == []


def test_it_starts_when_waiting_takes_longer_or_nothing_runs() -> None:
    assert decide("paper_wait", 4, [Running(10_000, {"cpu": 12})]) == [("a1", 4)]
    assert decide("paper_wait", 4, []) == [("a1", 4)]
    assert decide("paper_wait", 16, [Running(1_000, {"cpu": 12})]) == [("a1", 16)]
