"""Actions without a trajectory: order, sizes, deadlines, what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.core.admission import Admission
from scheduler.core.attention import Attention
from scheduler.core.domain import Domain
from scheduler.core.events import (
    Action,
    Cancelled,
    Grant,
    NodeJoined,
    NodeLost,
    Reject,
    Released,
    Restored,
    Submitted,
    Tick,
)
from scheduler.core.fixed import FixedPolicy
from scheduler.core.node_by_node import NodeByNode
from scheduler.core.placement import Placement
from scheduler.core.policies import Policies
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
    driver.at = 150
    assert rejects(driver.submit(action("a3", deadline=300))) == {"a3": "no_capacity"}, "it is 400 already"


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
    class Greedy(FixedPolicy):
        def decide(self, *scene: object) -> list[tuple[Action, int]]:
            return [(action("a1", sizes=(1, 9)), 9)]

    greedy = Greedy()
    domain = Domain("n", "cpu", {"cpu": 4}, Attention())
    domain.enqueue(action("a1", sizes=(1, 9)))
    with pytest.raises(ValueError, match="the policy gave action a1 9 units on n, where cpu=4 is free"):
        domain.decide(0, Policies(cpu=greedy, gpu=NodeByNode(greedy), api=greedy))


def test_a_policy_that_is_broken_in_one_domain_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Admission("min")
    for name in ("n", "m"):
        core.handle(NodeJoined(0, name, "cpu", {"cpu": 2}))
    decide = Domain.decide

    def broken(self: Domain, *arguments: object) -> object:
        if self.name == "m":
            raise ValueError("this policy is broken")
        return decide(self, *arguments)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(Domain, "decide", broken)
    with pytest.raises(ValueError, match="this policy is broken"):
        core.handle_all([Submitted(1, action("a1")), Submitted(1, action("a2"))])
    monkeypatch.setattr(Domain, "decide", decide)
    assert [row.action for row in core.handle(Released(2, "nobody")) if isinstance(row, Grant)] == ["a1"]


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


@pytest.mark.parametrize(
    ("spoil", "book"),
    [
        (lambda places: places.cpu.nodes["n"].used.update(cpu=3), "domain n: used cpu=3, but 2 is held"),
        (lambda places: setattr(places.cpu.nodes["n"], "queued_units", 9), "domain n: queued_units=9, not 1"),
        (
            lambda places: places.cpu.nodes["n"].queue._lines[""]._actions.reverse(),
            "domain n: the queue is out of order",
        ),
        (lambda places: places.grants.pop("a1"), "grants: "),
        (lambda places: places.room.forget("a2"), "waiting room: "),
        (lambda places: places.cpu.nodes["n"].unreserve("t"), "node n: memory is held for"),
        (lambda places: places.api._load.update(x=1), "api nodes: in flight"),
    ],
)
def test_validate_names_the_book_that_is_off(spoil: Callable[[Placement], object], book: str) -> None:
    driver = Driver()
    driver.cpu_node("n", 2)
    driver.trajectory("t")
    driver.submit(action("a1", sizes=(2,)), action("a2"))
    if "order" in book:
        driver.submit(action("a3"))
    spoil(driver.core._places)
    with pytest.raises(AssertionError, match=re.escape(book)):
        driver.core.validate()


def test_events_that_arrive_together_are_decided_once() -> None:
    driver = Driver()
    driver.cpu_node("n", 2)
    together = [Submitted(0, action("a1")), Submitted(0, action("a2", sizes=(1, 2)))]
    assert grants(driver.core.handle_all(together)) == {"a1": ("n", 1), "a2": ("n", 1)}


def test_one_contradiction_among_several_events_changes_nothing() -> None:
    driver = Driver()
    driver.cpu_node("n", 2)
    with pytest.raises(ValueError, match="a2 needs one duration"):
        driver.core.handle_all([Submitted(0, action("a1")), Submitted(0, action("a2", sizes=(1, 2), durations=(1,)))])
    assert driver.core.waiting() == []
    assert driver.core.holdings()[0].running == 0
