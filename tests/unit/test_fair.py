"""Queues that jobs share by weight."""

from __future__ import annotations

from scheduler.core.events import JobWeight, Released
from scheduler.core.fair import FairQueue
from scheduler.core.quota import Quota
from tests.support.core import Driver, action, grants


def names(queue: FairQueue) -> list[str]:
    return [one.id for one in queue.actions]


def filled(weights: dict[str, int]) -> FairQueue:
    queue = FairQueue(lambda one: 1)
    queue.share(weights)
    for place in range(6):
        queue.add(action(f"h{place}", job="heavy"))
    queue.add(action("l7", job="light"))
    queue.add(action("l8", job="light"))
    return queue


def test_without_weights_it_is_first_come_first_served() -> None:
    assert names(filled({})) == ["h0", "h1", "h2", "h3", "h4", "h5", "l7", "l8"]


def test_equal_jobs_take_turns_and_each_in_its_own_order() -> None:
    assert names(filled({"heavy": 1, "light": 1})) == ["h0", "l7", "h1", "l8", "h2", "h3", "h4", "h5"]


def test_twice_the_weight_is_twice_the_turns() -> None:
    assert names(filled({"heavy": 2, "light": 1}))[:6] == ["h0", "l7", "h1", "h2", "l8", "h3"]


def test_who_was_away_neither_saves_up_nor_pays_back() -> None:
    queue = FairQueue(lambda one: 1)
    queue.share({"heavy": 1, "light": 1})
    for place in range(50):
        served = action(f"h{place}", job="heavy")
        queue.add(served)
        queue.remove(served)
        queue.served(served, 1)
    queue.add(action("h60", job="heavy"))
    queue.add(action("h61", job="heavy"))
    queue.add(action("l62", job="light"))
    queue.add(action("l63", job="light"))
    assert names(queue)[:3] in (["l62", "h60", "l63"], ["h60", "l62", "h61"])


def test_a_weight_that_comes_goes_or_changes_loses_nobody() -> None:
    queue = filled({})
    queue.share({"light": 3})
    assert sorted(names(queue)) == sorted(names(filled({})))
    queue.share({})
    assert names(queue) == names(filled({}))
    queue.validate("here")


def test_jobs_share_a_provider() -> None:
    driver = Driver()
    for name in ("heavy", "light"):
        driver.feed(JobWeight(0, name, 1))
    driver.api_node("x", search=Quota(concurrency=1))
    driver.submit(*(action(f"h{place}", key="api:search", job="heavy") for place in range(4)))
    driver.submit(*(action(f"l{place}", key="api:search", job="light") for place in (7, 8)))
    order = ["h0"]
    while granted := grants(driver.feed(Released(1, order[-1]))):
        order += granted
    assert order == ["h0", "l7", "h1", "l8", "h2", "h3"]


def test_jobs_share_cores_by_work_and_not_by_number() -> None:
    driver = Driver(policy="min")
    for name in ("long", "short"):
        driver.feed(JobWeight(0, name, 1))
    driver.cpu_node("n", 1)
    driver.submit(*(action(f"l{place}", job="long", durations=[4000]) for place in range(3)))
    driver.submit(*(action(f"s{place}", job="short", durations=[1000]) for place in range(4, 12)))
    order = ["l0"]
    while granted := grants(driver.feed(Released(1, order[-1]))):
        order += granted
    assert order[:6] == ["l0", "s4", "s5", "s6", "s7", "l1"]
