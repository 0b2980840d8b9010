"""API quotas: one per provider, over all nodes."""

from __future__ import annotations

from scheduler.core.events import Cancelled, NodeLost, Reject, Released, Restored, Tick
from scheduler.core.quota import Quota
from tests.support.core import Driver, action, grants, rejects

SEARCH = "api:search"


def test_calls_in_flight_stay_within_the_concurrency_and_go_first_come_first_served() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=2))
    decisions = driver.submit(*(action(f"a{place}", key=SEARCH) for place in range(4)))
    assert list(grants(decisions)) == ["a0", "a1"]
    assert grants(driver.feed(Released(5, "a1"))) == {"a2": ("x", 1)}


def test_two_nodes_share_one_quota_and_the_less_loaded_one_calls() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=3), chat=Quota(concurrency=9))
    driver.api_node("y", search=Quota(concurrency=3))
    assert grants(driver.submit(action("a0", key="api:chat"))) == {"a0": ("x", 1)}
    decisions = driver.submit(*(action(f"a{place}", key=SEARCH) for place in range(1, 5)))
    assert grants(decisions) == {"a1": ("y", 1), "a2": ("x", 1), "a3": ("y", 1)}
    assert grants(driver.feed(Released(1, "a3"))) == {"a4": ("y", 1)}


def test_the_rate_is_kept_and_the_next_start_is_known() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9, per_second=2.0, burst=2))
    decisions = driver.submit(*(action(f"a{place}", key=SEARCH) for place in range(5)))
    assert list(grants(decisions)) == ["a0", "a1"]
    assert driver.core.next_wake(0) == 500
    assert driver.feed(Tick(499)) == []
    assert list(grants(driver.feed(Tick(500)))) == ["a2"]
    assert driver.core.next_wake(500) == 1000
    assert list(grants(driver.feed(Tick(2000)))) == ["a3", "a4"]
    assert driver.core.next_wake(2000) is None


def test_a_wake_that_was_missed_is_still_due() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9, per_second=2.0))
    driver.submit(action("a0", key=SEARCH), action("a1", key=SEARCH))
    assert driver.core.next_wake(800) == 800
    assert list(grants(driver.feed(Tick(800)))) == ["a1"]


def test_another_event_after_the_refill_starts_the_call_too() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9, per_second=2.0))
    driver.submit(action("a0", key=SEARCH), action("a1", key=SEARCH))
    assert list(grants(driver.feed(Released(600, "nobody")))) == ["a1"]


def test_a_call_that_ended_gives_no_token_back() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=1, per_second=1.0))
    driver.submit(action("a0", key=SEARCH), action("a1", key=SEARCH))
    assert driver.core.next_wake(0) is None, "tokens do not matter while the concurrency is used up"
    assert driver.feed(Released(300, "a0")) == []
    assert driver.core.next_wake(300) == 1000


def test_a_cancelled_head_leaves_no_wake_behind() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9, per_second=1.0))
    driver.submit(action("a0", key=SEARCH), action("a1", key=SEARCH))
    driver.feed(Cancelled(1, "a1"))
    assert driver.core.next_wake(1) is None


def test_a_deadline_on_a_quota_is_an_exhausted_quota() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=1))
    driver.submit(action("a0", key=SEARCH), action("a1", key=SEARCH, deadline=70))
    assert driver.core.next_wake(0) == 70
    assert rejects(driver.feed(Tick(70))) == {"a1": "quota_exhausted"}


def test_a_provider_that_no_present_node_offers_is_infeasible() -> None:
    driver = Driver()
    assert driver.submit(action("a0", key="api:chat")) == []
    [reject] = driver.api_node("x", search=Quota(concurrency=1))
    assert isinstance(reject, Reject)
    assert (reject.action, reject.outcome) == ("a0", "infeasible")
    assert "calls api:chat, which no api node offers: they offer api:search" in reject.detail


def test_more_calls_at_once_than_the_quota_ever_allows_are_infeasible() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=4, per_second=5.0, burst=2))
    decisions = driver.submit(action("a0", key=SEARCH, sizes=(5,)), action("a1", key=SEARCH, sizes=(3,)))
    assert rejects(decisions) == {"a0": "infeasible", "a1": "infeasible"}
    assert grants(driver.submit(action("a2", key=SEARCH, sizes=(2,)))) == {"a2": ("x", 2)}
    assert driver.core.next_wake(0) is None


def test_a_call_that_also_asks_for_cpu_is_infeasible_even_without_a_node() -> None:
    [reject] = Driver().submit(action("a0", key=SEARCH, beside={"cpu": 1}))
    assert isinstance(reject, Reject)
    assert reject.outcome == "infeasible"
    assert "an api node shares out only api:search" in reject.detail


def test_a_lost_node_gives_its_calls_back_but_not_their_tokens() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=2, per_second=1.0, burst=2))
    driver.submit(*(action(f"a{place}", key=SEARCH) for place in range(3)))
    assert driver.feed(NodeLost(10, "x")) == []
    driver.at = 20
    assert driver.api_node("y", search=Quota(concurrency=2, per_second=1.0, burst=2)) == []
    assert driver.core.next_wake(20) == 1000
    assert grants(driver.feed(Tick(1000))) == {"a2": ("y", 1)}


def test_a_node_that_stops_offering_a_provider_gets_no_more_of_its_calls() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=9))
    driver.api_node("y", search=Quota(concurrency=9))
    driver.api_node("x", chat=Quota(concurrency=1))
    decisions = driver.submit(action("a0", key=SEARCH), action("a1", key=SEARCH))
    assert grants(decisions) == {"a0": ("y", 1), "a1": ("y", 1)}


def test_the_newest_quota_counts_and_a_smaller_one_grants_nothing_until_it_fits() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=3))
    driver.submit(*(action(f"a{place}", key=SEARCH) for place in range(4)))
    assert driver.api_node("x", search=Quota(concurrency=1)) == []
    assert driver.feed(Released(1, "a0")) == []
    assert driver.feed(Released(2, "a1")) == []
    assert list(grants(driver.feed(Released(3, "a2")))) == ["a3"]


def test_a_rate_can_come_change_and_go() -> None:
    driver = Driver()
    driver.api_node("x", search=Quota(concurrency=99))
    driver.api_node("x", search=Quota(concurrency=99, per_second=1.0))
    assert list(grants(driver.submit(action("a0", key=SEARCH), action("a1", key=SEARCH)))) == ["a0"]
    driver.api_node("x", search=Quota(concurrency=99, per_second=4.0))
    assert driver.core.next_wake(0) == 250
    assert list(grants(driver.api_node("x", search=Quota(concurrency=99)))) == ["a1"]


def test_a_restored_call_counts_although_its_own_node_is_not_back() -> None:
    driver = Driver()
    driver.feed(Restored(0, action("a0", key=SEARCH), node="y", units=1))
    decisions = driver.api_node("x", search=Quota(concurrency=2)) + driver.submit(
        action("a1", key=SEARCH), action("a2", key=SEARCH)
    )
    assert grants(decisions) == {"a1": ("x", 1)}
    assert list(grants(driver.feed(Released(1, "a0")))) == ["a2"]
