"""The arrangement of units to candidates."""

from __future__ import annotations

import pytest

from scheduler.core import arrangement
from scheduler.core.arrangement import Arrangement, useful_choices
from tests.support.core import action


def test_one_table_answers_every_prefix() -> None:
    members = [
        action("a1", sizes=(1, 2, 4), durations=(80, 44, 26)),
        action("a2", sizes=(2,), durations=(50,)),
        action("a3", sizes=(1, 3), durations=(90, 40)),
    ]
    table = Arrangement(members, budget=6)
    assert [table.total(kept) for kept in (0, 1, 2, 3)] == [0, 26, 76, 80 + 50 + 40]
    assert [table.units(kept) for kept in (0, 1, 2, 3)] == [[], [4], [4, 2], [1, 2, 3]]


def test_a_budget_above_all_the_largest_sizes_changes_nothing() -> None:
    members = [action("a1", sizes=(1, 2)), action("a2", sizes=(1, 4))]
    assert Arrangement(members, 10**9).units(2) == [2, 4]


def test_a_tie_goes_to_the_fewest_units() -> None:
    members = [action("a1", sizes=(1, 2, 4), durations=(100, 60, 60))]
    assert Arrangement(members, 4).units(1) == [2]


def test_a_tie_between_two_actions_leaves_the_last_one_small() -> None:
    members = [action(name, sizes=(1, 2), durations=(100, 60)) for name in ("a1", "a2")]
    assert Arrangement(members, 3).units(2) == [2, 1]


def test_a_size_that_is_slower_than_a_smaller_one_is_never_given() -> None:
    member = action("a1", sizes=(2, 3, 4, 5), durations=(2072, 2087, 1957, 1957))
    assert useful_choices(member) == [(2, 2072), (4, 1957)]
    assert Arrangement([member], 5).units(1) == [4]


def test_only_useful_sizes_make_an_action_elastic() -> None:
    assert not Arrangement([action("a1", sizes=(1, 2), durations=(10, 10))], 4).elastic
    assert Arrangement([action("a1", sizes=(1, 2), durations=(10, 9))], 4).elastic


def test_a_steep_late_gain_is_found_where_a_greedy_walk_would_miss_it() -> None:
    members = [
        action("a1", sizes=(1, 2, 3), durations=(100, 99, 10)),
        action("a2", sizes=(1, 2), durations=(50, 30)),
    ]
    assert Arrangement(members, 4).units(2) == [3, 1]


def test_more_minimum_demand_than_budget_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 actions do not fit 3 units"):
        Arrangement([action("a1", sizes=(2,)), action("a2", sizes=(2,))], 3)


def test_past_the_work_limit_candidates_count_at_their_smallest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrangement, "MAX_CELLS", 20)
    members = [action(f"a{place}", sizes=(1, 2, 4)) for place in range(8)]
    table = Arrangement(members, 32)
    assert table.units(8)[:2] == [4, 4]
    assert table.units(8)[2:] == [1] * 6
    assert sum(table.units(8)) <= 32
    assert table.total(8) == sum({4: 250, 1: 1000}[units] for units in table.units(8))
