"""Actions without a trajectory: routing, order, refusals, deadlines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.admission import Admission
from scheduler.core.domain import Domain
from scheduler.core.events import Cancelled, NodeJoined, NodeLost, Reject, Released, Restored, Submitted, Tick
from scheduler.core.views import Holdings, WaitingAction
from tests.support.core import Driver, action, grants, rejects


def test_an_action_gets_the_size_the_policy_says_and_gives_it_back() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    assert grants(driver.submit(action("a1", sizes=(1, 2, 4)))) == {"a1": ("n", 4)}
    assert driver.submit(action("a2", sizes=(2,))) == []
    assert grants(driver.feed(Released(5, "a1"))) == {"a2": ("n", 2)}


def test_the_order_is_priority_then_arrival() -> None:
    driver = Driver()
    driver.cpu_node("n", 1)
    driver.submit(action("a1"), action("a4"), action("a3"), action("a2", priority=-1), action("a5", priority=1))
    order: list[str] = []
    for at in range(4):
        done = "a1" if not order else order[-1]
        order += grants(driver.feed(Released(at, done)))
    assert order == ["a5", "a3", "a4", "a2"]


def test_nobody_overtakes_a_blocked_head() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.submit(action("a1", sizes=(3,)))
    assert driver.submit(action("a2", sizes=(2,)), action("a3")) == []


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


def test_known_and_unknown_ids_change_nothing() -> None:
    driver = Driver()
    driver.cpu_node("n", 2)
    first = action("a1", sizes=(2,))
    driver.submit(first, action("a2", sizes=(2,)))
    assert driver.submit(first, action("a2", sizes=(2,))) == []
    assert driver.feed(Restored(0, first, "n", 2)) == []
    assert driver.feed(Released(0, "a2")) == [], "it waits: there is nothing to give back"
    assert driver.feed(Cancelled(0, "a1")) == [], "it runs: the shell kills it"
    for unknown in (Released(0, "x"), Cancelled(0, "x"), NodeLost(0, "x")):
        assert driver.feed(unknown) == []
    assert driver.core.holdings() == [Holdings("n", {"cpu": 2, "memory": 1024}, {"cpu": 2, "memory": 0}, 1, 1)]


def test_a_released_action_can_be_submitted_again() -> None:
    driver = Driver()
    driver.cpu_node("n", 1)
    driver.submit(action("a1"))
    driver.feed(Released(1, "a1"))
    assert grants(driver.submit(action("a1"))) == {"a1": ("n", 1)}


def test_a_cancelled_head_lets_the_next_ones_pass() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.submit(action("a1", sizes=(3,)), action("a2", sizes=(2,)), action("a3"))
    assert grants(driver.feed(Cancelled(1, "a2"))) == {"a3": ("n", 1)}


def test_a_deadline_ends_the_wait_and_frees_the_way() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.submit(action("a1", sizes=(3,)), action("a2", sizes=(2,), deadline=50), action("a3"))
    assert driver.core.next_wake(10) == 50
    assert driver.feed(Tick(49)) == []
    decisions = driver.feed(Tick(50))
    assert rejects(decisions) == {"a2": "no_capacity"}
    assert grants(decisions) == {"a3": ("n", 1)}
    assert driver.core.next_wake(50) is None
    [reject] = [row for row in decisions if isinstance(row, Reject)]
    assert reject.detail.startswith("action a2 has waited 50 ms for cpu=2, its max_queue, and finds cpu=1")


def test_any_event_past_the_deadline_ends_the_wait() -> None:
    driver = Driver()
    driver.cpu_node("n", 1)
    driver.submit(action("a1"), action("a2", deadline=50))
    assert rejects(driver.feed(Released(60, "a1"))) == {"a2": "no_capacity"}


def test_a_deadline_counts_without_any_node_too_and_not_once_granted() -> None:
    driver = Driver()
    driver.submit(action("a1", deadline=50), action("a2", deadline=90))
    assert rejects(driver.feed(Tick(50))) == {"a1": "no_capacity"}
    driver.at = 60
    assert grants(driver.cpu_node("n", 1)) == {"a2": ("n", 1)}
    assert driver.core.next_wake(60) is None
    assert driver.feed(Tick(90)) == []


def test_an_action_submitted_again_waits_for_its_new_deadline() -> None:
    driver = Driver()
    driver.submit(action("a1", deadline=50))
    driver.feed(Cancelled(1, "a1"))
    driver.submit(action("a1", deadline=80))
    assert driver.core.next_wake(1) == 80
    assert driver.feed(Tick(50)) == []
    assert rejects(driver.feed(Tick(80))) == {"a1": "no_capacity"}


def test_a_clock_that_is_set_back_does_no_harm() -> None:
    driver = Driver()
    driver.cpu_node("n", 1)
    driver.submit(action("a1"), action("a2", deadline=500))
    driver.feed(Tick(400))
    assert grants(driver.feed(Released(100, "a1"))) == {"a2": ("n", 1)}


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


def test_views_show_who_waits_where() -> None:
    driver = Driver()
    driver.cpu_node("n", 2)
    driver.submit(action("a1", sizes=(2,)), action("a2"), action("a3"), action("a4", key="gpu"))
    assert driver.core.waiting() == [
        WaitingAction("a2", "n", 1),
        WaitingAction("a3", "n", 2),
        WaitingAction("a4", None, 1),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": (), "durations": ()}, "one duration for each"),
        ({"durations": (1, 2)}, "one duration for each"),
        ({"sizes": (2, 2), "durations": (1, 1)}, "sizes that rise"),
        ({"sizes": (0,)}, "sizes that rise"),
        ({"durations": (0,)}, "at least 1 ms"),
        ({"demand": {"cpu": 2}}, "cpu=1, its smallest size"),
        ({"demand": {"memory": 1}}, "cpu=1, its smallest size"),
        ({"demand": {"cpu": 1, "memory": -1}}, "nothing negative"),
    ],
)
def test_a_contradictory_action_is_refused_and_changes_nothing(change: dict[str, object], message: str) -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    with pytest.raises(ValueError, match=message):
        driver.submit(replace(action("a1"), **change))  # type: ignore[arg-type]  # wrong on purpose
    assert driver.core.waiting() == []
    assert list(grants(driver.submit(action("a1")))) == ["a1"]


def test_an_unknown_policy_or_depth_is_refused() -> None:
    with pytest.raises(
        ValueError, match="no scheduling policy 'luck': choose fixed:N or live or min or paper or paper_wait"
    ):
        Admission(policy="luck")
    with pytest.raises(ValueError, match="depth must be 0 or more"):
        Admission(depth=-1)


def test_a_policy_that_gives_too_much_is_stopped() -> None:
    class Greedy:
        def decide(self, *scene: object) -> list[tuple[object, int]]:
            return [(action("a1", sizes=(1, 9)), 9)]

    domain = Domain("n", "cpu", {"cpu": 4})
    domain.enqueue(action("a1", sizes=(1, 9)))
    with pytest.raises(ValueError, match="the policy gave action a1 9 units on n, where cpu=4 is free"):
        domain.decide(0, Greedy())  # type: ignore[arg-type]  # a stand-in with loose types


def test_only_domains_in_which_something_changed_are_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Admission()
    for name in ("n", "m"):
        core.handle(NodeJoined(0, name, "cpu", {"cpu": 2}))
    for place in range(4):
        core.handle(Submitted(0, action(f"a{place}", sizes=(2,))))
    decided: list[str] = []
    decide = Domain.decide

    def record(self: Domain, *arguments: object) -> object:
        decided.append(self.name)
        return decide(self, *arguments)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(Domain, "decide", record)
    core.handle(Tick(1))
    assert decided == []
    core.handle(Released(2, "a1"))
    assert decided == ["m"]
