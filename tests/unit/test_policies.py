"""The simple policies, the registry, and the order in which actions wait."""

from __future__ import annotations

import pytest

from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.fcfs import AGING, order
from scheduler.core.paper import PaperPolicy
from scheduler.core.policy import POLICIES, Policy, make_policy
from tangram_tasks.settings import Settings
from tests.support.core import Driver, action, grants

SIZES = (1, 2, 4, 8)


def started(
    policy: Policy, queue: list[Action], free: int, running: list[Running] | None = None, now: int = 0
) -> dict[str, int]:
    return {one.id: units for one, units in policy.decide(now, {"cpu": free}, running or [], queue)}


def test_min_gives_everybody_the_smallest_size() -> None:
    queue = [action("a1", sizes=(2, 4)), action("a2", sizes=SIZES)]
    assert started(make_policy("min", 16), queue, 16) == {"a1": 2, "a2": 1}


def test_fixed_gives_everybody_the_same_and_the_first_that_does_not_fit_waits() -> None:
    queue = [action("a1", sizes=SIZES), action("a2"), action("a3", sizes=SIZES), action("a4")]
    assert started(make_policy("fixed:4", 16), queue, 8) == {"a1": 4, "a2": 1}


def test_fixed_gives_no_more_than_the_node_could_ever_have() -> None:
    assert started(make_policy("fixed:16", 16), [action("a1", sizes=(1, 4, 16))], 6) == {"a1": 4}


def test_utilisation_counts_what_is_busy_and_not_what_is_held() -> None:
    policy = make_policy("utilisation", 16)
    scaling = action("a1", sizes=(1, 8), durations=(800, 100))
    serial = action("a2", sizes=(1, 8), durations=(800, 800))
    assert started(policy, [serial], 10) == {"a2": 8}, "one busy core of ten"
    assert started(policy, [scaling, action("a3")], 10) == {"a1": 8}, "eight of ten are busy: the mark is reached"


def test_utilisation_starts_something_on_an_idle_node_that_is_too_small_for_its_mark() -> None:
    assert started(make_policy("utilisation", 16), [action("a1")], 1) == {"a1": 1}


def test_paper_wait_may_evict_the_only_candidate_and_paper_may_not() -> None:
    wide = action("a1", sizes=(1, 8), durations=(80_000, 10_000))
    running = [Running(100, {"cpu": 7})]
    assert started(make_policy("paper", 16), [wide], 1, running) == {"a1": 1}
    assert started(make_policy("paper_wait", 16), [wide], 1, running) == {}
    assert started(make_policy("paper_wait", 16), [wide], 1) == {"a1": 1}, "nothing runs that could be waited for"


def test_paper_wait_takes_up_to_eight_units_of_what_it_finds() -> None:
    policy = PaperPolicy(waiting_units=8, evict_all=True)
    queue = [action("a1", sizes=(1, 16), durations=(1600, 100))]
    [group] = policy.explain(0, {"cpu": 1}, [Running(10, {"cpu": 15})], queue)
    assert group.evicted == ()


def test_wait_or_start_waits_for_a_size_that_finishes_earlier() -> None:
    policy = make_policy("wait_or_start", 16)
    wide = action("a1", sizes=(1, 8), durations=(80_000, 10_000))
    assert started(policy, [wide], 1, [Running(100, {"cpu": 7})]) == {}
    assert started(policy, [wide], 1, [Running(90_000, {"cpu": 7})]) == {"a1": 1}


def test_wait_or_start_serves_the_shortest_first_but_not_for_ever() -> None:
    policy = make_policy("wait_or_start", 16)
    long, short = action("a1", durations=(9000,)), action("a2", durations=(100,), arrival=8000)
    assert started(policy, [long, short], 2) == {"a2": 1, "a1": 1}
    [first, _] = policy.decide(8000, {"cpu": 2}, [], [long, action("a3", durations=(9000,), arrival=8000)])
    assert first[0] is long


def test_wait_or_start_waits_no_longer_than_its_patience() -> None:
    wide = action("a1", sizes=(1, 8), durations=(80_000, 10_000))
    assert started(make_policy("wait_or_start", 16), [wide], 1, [Running(30_100, {"cpu": 7})], 30_000) == {"a1": 1}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_starts_something_on_an_idle_node(name: str) -> None:
    driver = Driver(policy=name)
    driver.cpu_node("n", 4)
    assert grants(driver.submit(action("a1", sizes=(1, 2, 4)))) != {}


@pytest.mark.parametrize("name", ["fixed:0", "fixed:", "fixed:-1", "fixed:x", "fixed", "min:2"])
def test_a_wrong_size_is_no_policy(name: str) -> None:
    with pytest.raises(ValueError, match="there is no scheduling policy"):
        make_policy(name, 16)


def test_weights_must_be_positive() -> None:
    with pytest.raises(ValueError, match="weights of jobs must be positive"):
        make_policy("live", 16, {"a": 0})


def test_a_priority_is_worth_a_bounded_head_start() -> None:
    old, urgent = action("a1"), action("a2", arrival=AGING - 1, priority=1)
    later = action("a3", arrival=AGING + 1, priority=1)
    assert sorted([old, urgent, later], key=order) == [urgent, old, later]


@pytest.mark.parametrize("name", ["paper", "min", "fixed:2", "live"])
def test_a_flood_of_urgent_actions_delays_a_plain_one_by_no_more_than_the_aging(name: str) -> None:
    driver = Driver(policy=name, instant_resize=True)
    driver.cpu_node("n", 1)
    driver.submit(action("u0", priority=1))
    driver.submit(action("plain", seq=1))
    for turn in range(1, 200):
        driver.at = turn * 1000
        driver.submit(action(f"u{turn}", seq=turn + 1, arrival=driver.at, priority=1))
        if "plain" in grants(driver.release(f"u{turn - 1}")):
            assert driver.at <= AGING + 1000
            return
    pytest.fail("the plain action was never granted")


def test_predictions_follow_the_queue() -> None:
    driver = Driver()
    driver.cpu_node("n", 2)
    driver.submit(action("a1", sizes=(2,), durations=(100,)), action("a2", sizes=(2,), durations=(50,), arrival=0))
    driver.submit(action("a3", durations=(10,)))
    rows = {row.action: (row.start, row.end, row.act) for row in driver.core.predictions()}
    assert rows == {"a2": (100, 150, 150), "a3": (150, 160, 160)}


@pytest.mark.parametrize("name", ["fixed:3", *POLICIES])
def test_every_policy_can_be_chosen_from_outside(name: str) -> None:
    if name != "residency":
        assert Settings(policy=name).policy == name
    if name != "live":  # a GPU's sizes do not change
        assert Settings(gpu_policy=name).gpu_policy == name


def test_live_is_the_default() -> None:
    assert Settings().policy == "live"
