"""The walk over completions by which waiting actions are estimated."""

from __future__ import annotations

from scheduler.core.completion import waiting_act
from tests.support.core import action


def test_nobody_waits_for_nothing() -> None:
    assert waiting_act(100, 4, [], []) == 0


def test_free_units_are_used_at_once_at_the_smallest_size() -> None:
    waiting = [action("a1", sizes=(2, 4), durations=(50, 30), arrival=90)]
    assert waiting_act(100, 4, [], waiting) == 60


def test_units_fall_free_as_completions_pass() -> None:
    waiting = [action("a1", sizes=(3,), durations=(10,)), action("a2", sizes=(1,), durations=(5,))]
    # a1 needs both completions: starts at 140, ends at 150; a2 takes the unit that is left at 140.
    assert waiting_act(100, 0, [(140, 2), (120, 2)], waiting) == 150 + 145


def test_nobody_overtakes_the_one_before() -> None:
    waiting = [action("a1", sizes=(4,), durations=(10,)), action("a2", sizes=(1,), durations=(5,))]
    # one unit is free all along, but a2 starts after a1 has.
    assert waiting_act(100, 1, [(200, 3)], waiting) == 210 + 215


def test_an_overdue_completion_frees_its_units_now() -> None:
    assert waiting_act(100, 0, [(10, 1)], [action("a1", durations=(7,))]) == 107


def test_a_demand_that_is_never_free_is_infinite() -> None:
    assert waiting_act(100, 1, [(120, 1)], [action("a1", sizes=(3,))]) is None
