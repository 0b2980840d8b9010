"""Greedy eviction, and the objective that it lowers."""

from __future__ import annotations

from scheduler.core.candidates import groups
from scheduler.core.completion import Running
from scheduler.core.eviction import EXACT_STEPS, Objective, keep
from scheduler.core.paper import PaperPolicy
from tests.support.core import action


def values(*by_kept: int | None) -> tuple[dict[int, int | None], int]:
    return dict(enumerate(by_kept, 1)), len(by_kept)


def test_the_last_is_dropped_while_the_objective_falls() -> None:
    table, count = values(30, 20, 25, 40)
    assert keep(table.__getitem__, count) == 2


def test_the_first_step_that_does_not_improve_ends_it() -> None:
    table, count = values(1, 50, 40, 40)
    assert keep(table.__getitem__, count) == 4


def test_one_candidate_always_stays() -> None:
    table, count = values(10, 20, 30)
    assert keep(table.__getitem__, count) == 1


def test_from_infinite_to_finite_is_a_fall_but_not_from_infinite_to_infinite() -> None:
    table, count = values(10, 20, None)
    assert keep(table.__getitem__, count) == 1
    table, count = values(10, None, None)
    assert keep(table.__getitem__, count) == 3
    table, count = values(None, 20)
    assert keep(table.__getitem__, count) == 2


def test_a_bulk_of_candidates_costs_few_evaluations() -> None:
    asked: list[int] = []

    def objective(kept: int) -> int:
        asked.append(kept)
        return kept

    assert keep(objective, 5000) == 1
    assert len(asked) <= EXACT_STEPS + 13
    assert asked[:EXACT_STEPS] == list(range(5000, 5000 - EXACT_STEPS, -1))


def test_the_objective_counts_the_same_actions_however_many_are_kept() -> None:
    queue = [action("a1", sizes=(1, 2), durations=(80, 44)), action("a2", sizes=(1, 2), durations=(80, 44))]
    [group] = groups(queue, {"cpu": 2}, depth=16)
    objective = Objective(0, group, [Running(7, {"cpu": 2})])
    # both at one unit; or a1 on two, and a2 on one unit when the running action has ended
    assert (objective(2), objective(1)) == (160, 44 + 7 + 80)


def test_running_actions_of_other_resources_free_nothing() -> None:
    queue = [action("a1"), action("a2", sizes=(4,), durations=(10,))]
    [group] = groups(queue, {"cpu": 1}, depth=16)
    assert Objective(0, group, [Running(7, {"gpu": 4})])(1) is None


def test_an_evicted_candidate_waits_and_the_rest_get_its_units() -> None:
    queue = [action("a1", sizes=(1, 2), durations=(8000, 4400)), action("a2", sizes=(1, 2), durations=(8000, 4400))]
    running = [Running(700, {"cpu": 2})]
    decided = PaperPolicy(depth=16).decide(0, {"cpu": 2}, running, queue)
    assert [(one.id, units) for one, units in decided] == [("a1", 2)]


def test_fixed_sizes_are_never_evicted() -> None:
    queue = [action("a1", durations=(9000,)), action("a2", sizes=(3,), durations=(9000,)), action("a3", durations=(1,))]
    decided = PaperPolicy(depth=16).decide(0, {"cpu": 4}, [], queue)
    assert [(one.id, units) for one, units in decided] == [("a1", 1), ("a2", 3)]


def test_two_groups_are_decided_apart_and_returned_in_queue_order() -> None:
    queue = [
        action("a1", key="gpu", sizes=(1,)),
        action("a2", sizes=(1, 2)),
        action("a3", key="gpu", sizes=(1, 2)),
        action("a4", sizes=(1,)),
    ]
    decided = PaperPolicy(depth=16).decide(0, {"cpu": 3, "gpu": 3}, [], queue)
    assert [(one.id, units) for one, units in decided] == [("a1", 1), ("a2", 2), ("a3", 2), ("a4", 1)]


def test_a_bulk_arrival_on_a_large_node_is_decided_within_the_work_limits() -> None:
    queue = [
        action(f"a{place}", sizes=(1, 2, 4, 8, 16), durations=[8000 // size + place % 7 for size in (1, 2, 4, 8, 16)])
        for place in range(2000)
    ]
    decided = PaperPolicy(depth=16).decide(0, {"cpu": 256}, [], queue)
    assert [one.id for one, _ in decided] == [f"a{place}" for place in range(len(decided))]
    assert 1 <= len(decided) <= 256
    assert sum(units for _, units in decided) <= 256
