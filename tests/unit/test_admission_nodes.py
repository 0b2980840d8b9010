"""Nodes: who is routed where, and what joining, shrinking and dying do."""

from __future__ import annotations

import pytest

from scheduler.core.events import NodeLost, Reject, Released, Restored, Tick
from tests.support.core import Driver, action, grants, rejects


def test_each_node_is_a_domain_and_the_one_with_most_spare_units_is_chosen() -> None:
    driver = Driver()
    driver.cpu_node("small", 2)
    driver.cpu_node("large", 4)
    placed = grants(driver.submit(*(action(f"a{place}") for place in range(6))))
    assert [placed[f"a{place}"][0] for place in range(6)] == ["large", "large", "small", "large", "small", "large"]


def test_what_already_waits_counts_against_a_node() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.cpu_node("m", 4)
    driver.submit(action("a1", sizes=(4,)), action("a2", sizes=(3,)))
    driver.submit(action("a3", sizes=(2,)), action("a4", sizes=(2,)))
    assert driver.where("a3") == "m", "1 unit is free there, none on n"
    assert driver.where("a4") == "n", "m has 1 free but 2 waiting"


def test_gpu_actions_go_to_gpu_nodes() -> None:
    driver = Driver()
    driver.cpu_node("c", 64)
    driver.gpu_node("g", 2)
    decisions = driver.submit(*(action(f"a{place}", key="gpu") for place in range(3)))
    assert grants(decisions) == {"a0": ("g", 1), "a1": ("g", 1)}


def test_an_action_whose_pool_has_no_node_waits_for_one() -> None:
    driver = Driver()
    driver.gpu_node("g", 8)
    assert driver.submit(action("a1"), action("a2", sizes=(16,))) == []
    assert driver.where("a1") is None
    decisions = driver.cpu_node("n", 4)
    assert grants(decisions) == {"a1": ("n", 1)}
    assert rejects(decisions) == {"a2": "infeasible"}


def test_infeasible_names_the_largest_node() -> None:
    driver = Driver()
    driver.cpu_node("small", 2)
    driver.cpu_node("large", 8, memory=512)
    [reject] = driver.submit(action("a1", sizes=(9, 10)))
    assert isinstance(reject, Reject)
    assert reject.outcome == "infeasible"
    assert "action a1 needs cpu=9" in reject.detail
    assert "the largest, large, has cpu=8 memory=512" in reject.detail
    placed = grants(driver.submit(action("a2", memory=513), action("a3", sizes=(8,), memory=512)))
    assert placed == {"a2": ("small", 1), "a3": ("large", 8)}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (action("a1", beside={"api:search": 1}), "a cpu node shares out only cpu and memory"),
        (action("a1", key="gpu", memory=10), "a gpu node shares out only gpu"),
        (action("a1", key="gpu", beside={"cpu": 1}), "a gpu node shares out only gpu"),
        (action("a1", key="memory"), "asks for memory alone"),
    ],
)
def test_dimensions_that_a_pool_does_not_share_out_are_infeasible(wanted: object, words: str) -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.gpu_node("g", 4)
    assert isinstance(wanted, type(action("a")))
    [reject] = driver.submit(wanted)
    assert isinstance(reject, Reject)
    assert reject.outcome == "infeasible"
    assert words in reject.detail


def test_a_joining_node_takes_over_part_of_what_waits() -> None:
    driver = Driver()
    driver.cpu_node("n", 1)
    driver.submit(*(action(f"a{place}") for place in range(4)))
    assert grants(driver.cpu_node("m", 2)) == {"a1": ("m", 1), "a2": ("m", 1)}


def test_a_lost_nodes_waiters_move_and_its_grants_are_forgotten() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.cpu_node("m", 3)
    driver.submit(action("a1", sizes=(4,)), action("a2", sizes=(3,)), action("a3", sizes=(4,)), action("a4"))
    decisions = driver.feed(NodeLost(1, "n"))
    assert rejects(decisions) == {"a3": "infeasible"}
    assert driver.where("a4") == "m"
    assert driver.feed(Released(2, "a1")) == []
    assert rejects(driver.submit(action("a1", sizes=(4,)))) == {"a1": "infeasible"}
    assert grants(driver.feed(Released(3, "a2"))) == {"a4": ("m", 1)}


def test_when_the_last_node_is_lost_everybody_waits_for_the_next() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.submit(action("a1", sizes=(4,)), action("a2", sizes=(4,)))
    assert driver.feed(NodeLost(1, "n")) == []
    driver.submit(action("a1", sizes=(4,)))
    assert driver.where("a1") is None
    assert grants(driver.cpu_node("m", 8)) == {"a1": ("m", 4), "a2": ("m", 4)}


def test_a_node_that_shrinks_grants_nothing_until_it_is_below_its_capacity() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.submit(action("a1", sizes=(2,)), action("a2", sizes=(2,)), action("a3"), action("a4", sizes=(3,)))
    assert rejects(driver.cpu_node("n", 2)) == {"a4": "infeasible"}
    assert driver.feed(Released(1, "a1")) == []
    assert grants(driver.feed(Released(2, "a2"))) == {"a3": ("n", 1)}


def test_a_node_that_comes_back_as_another_kind_loses_what_it_had() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.submit(action("a1"), action("a2", sizes=(4,)))
    driver.gpu_node("n", 1)
    assert driver.where("a2") is None
    assert [row.domain for row in driver.core.holdings()] == ["n"]
    assert driver.core.holdings()[0].capacity == {"gpu": 1}


def test_a_restored_grant_is_held_whichever_comes_first() -> None:
    driver = Driver()
    driver.feed(Restored(0, action("a1", sizes=(2, 4)), "n", 4))
    assert driver.submit(action("a1", sizes=(2, 4)), action("a2", sizes=(2,))) == []
    assert driver.cpu_node("n", 5) == []
    driver.feed(Restored(0, action("a0"), "n", 1))
    assert driver.core.holdings()[0].granted == {"cpu": 5, "memory": 0}
    assert grants(driver.feed(Released(1, "a1"))) == {"a2": ("n", 2)}


def test_a_restored_grant_may_end_or_lose_its_node_before_the_node_joins() -> None:
    driver = Driver()
    driver.feed(Restored(0, action("a1"), "n", 1))
    driver.feed(Restored(0, action("a2"), "m", 1))
    driver.feed(Released(1, "a1"))
    driver.feed(NodeLost(1, "m"))
    driver.cpu_node("n", 4)
    driver.cpu_node("m", 4)
    assert all(row.granted["cpu"] == 0 for row in driver.core.holdings())
    assert list(grants(driver.submit(action("a1"), action("a2")))) == ["a1", "a2"]


def test_a_node_that_died_is_decided_upon_no_more() -> None:
    driver = Driver(policy="live", instant_resize=True)
    driver.cpu_node("n", 4)
    driver.submit(action("a1", sizes=(1, 4), malleable=True), action("a2"))
    driver.at = 10
    driver.release("a2")  # a1 has just shrunk for it, so it does not grow again yet
    driver.submit(action("a3", sizes=(4,)))
    driver.at = 300
    assert driver.feed(NodeLost(300, "n")) == []
    assert driver.core.next_wake(300) is None
    assert driver.feed(Tick(1000)) == []
