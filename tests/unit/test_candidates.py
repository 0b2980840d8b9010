"""Who is a candidate, and what each group has to share."""

from __future__ import annotations

from scheduler.core.candidates import candidates, groups
from tests.support.core import action


def test_candidates_are_the_prefix_that_fits_at_minimum_demand() -> None:
    queue = [action("a1", sizes=(2, 8)), action("a2", sizes=(3,)), action("a3", sizes=(1,))]
    assert [one.id for one in candidates(queue, {"cpu": 5})] == ["a1", "a2"]
    assert [one.id for one in candidates(queue, {"cpu": 6})] == ["a1", "a2", "a3"]
    assert candidates(queue, {"cpu": 1}) == []


def test_the_first_that_does_not_fit_blocks_smaller_ones_behind_it() -> None:
    queue = [action("a1", sizes=(4,)), action("a2", sizes=(9,)), action("a3", sizes=(1,))]
    assert [one.id for one in candidates(queue, {"cpu": 8})] == ["a1"]


def test_every_dimension_counts() -> None:
    queue = [action("a1", memory=3), action("a2", memory=3), action("a3")]
    assert [one.id for one in candidates(queue, {"cpu": 9, "memory": 5})] == ["a1"]


def test_a_dimension_without_any_room_named_blocks() -> None:
    assert candidates([action("a1", beside={"tape": 1})], {"cpu": 4}) == []
    assert len(candidates([action("a1", beside={"tape": 0})], {"cpu": 4})) == 1


def test_a_groups_budget_is_what_the_other_groups_leave_at_minimum() -> None:
    queue = [
        action("a1", key="gpu", sizes=(1, 2), beside={"cpu": 3}),
        action("a2", sizes=(2, 4)),
        action("a3", key="gpu", sizes=(2,)),
    ]
    gpu, cpu = groups(queue, {"cpu": 10, "gpu": 4}, depth=4)
    assert (gpu.key, gpu.budget, [one.id for one in gpu.members]) == ("gpu", 4, ["a1", "a3"])
    assert (cpu.key, cpu.budget, [one.id for one in cpu.members]) == ("cpu", 7, ["a2"])


def test_later_are_the_first_waiting_ones_of_the_same_key_up_to_depth() -> None:
    queue = [action("a1"), action("a2", sizes=(9,)), action("a3", key="gpu"), action("a4"), action("a5")]
    [cpu] = groups(queue, {"cpu": 4, "gpu": 0}, depth=2)
    assert [one.id for one in cpu.members] == ["a1"]
    assert [one.id for one in cpu.later] == ["a2", "a4"]
    assert groups(queue, {"cpu": 4, "gpu": 0}, depth=0)[0].later == ()
