"""Why an action waits."""

from __future__ import annotations

from scheduler.core.quota import Quota
from tests.support.core import Driver, action


def test_who_runs_or_is_unknown_has_nothing_to_explain() -> None:
    driver = Driver()
    driver.cpu_node("n", 1)
    driver.submit(action("a1"))
    assert driver.core.explain("a1") is None
    assert driver.core.explain("a2") is None


def test_what_is_missing_where_and_how_long_it_will_take() -> None:
    driver = Driver(policy="min")
    driver.cpu_node("n", 4, memory=100)
    driver.cpu_node("m", 1, memory=100)
    driver.submit(action("a1", sizes=(3,), durations=[900]), action("a2", sizes=(2,), durations=[500], memory=40))
    driver.submit(action("a3", sizes=(3,), durations=[100]))
    second, third = driver.core.explain("a2"), driver.core.explain("a3")
    assert second is not None
    assert third is not None
    assert (second.domain, second.position, second.demand) == ("n", 1, {"cpu": 2, "memory": 40})
    assert second.free == {"n": {"cpu": 1, "memory": 100}}, "m could never run it"
    assert second.reason == "n lacks cpu=1 for it; it waits for actions there to end"
    assert (second.start, second.act) == (900, 1400)
    assert (third.position, third.start, third.act) == (2, 1400, 1500)


def test_who_was_passed_over_is_told_how_often() -> None:
    driver = Driver(policy="wait_or_start")
    driver.cpu_node("n", 8)
    driver.submit(action("a1", sizes=(7,), durations=[100]))
    driver.submit(action("a2", sizes=(1, 8), durations=[8000, 1000]))  # better all units a little later
    why = driver.core.explain("a2")
    assert why is not None
    assert why.passed_over == 1
    assert why.reason == "it fits n, but the policy expects less waiting in all if it starts a little later"
    driver.submit(action("a3", sizes=(8,), durations=[50]))
    again = driver.core.explain("a2")
    assert again is not None
    assert again.passed_over == 2
    driver.release("a1")
    assert driver.core.explain("a2") is None


def test_a_sandbox_that_is_not_there_yet() -> None:
    driver = Driver()
    driver.trajectory("t", 200, ready=False)
    driver.submit(action("a1", trajectory="t"))
    reasons = []
    for node, memory in (("n", 300), ("m", 300)):
        why = driver.core.explain("a1")
        assert why is not None
        assert (why.domain, why.position) == (None, 1)
        reasons.append(why.reason)
        driver.cpu_node(node, 1, memory)
    assert reasons == [
        "the sandbox of trajectory t waits for 200 MiB on any node",
        "the sandbox of trajectory t is being made on node n",
    ]


def test_a_pool_without_nodes_and_a_provider_without_tokens() -> None:
    driver = Driver()
    driver.submit(action("a1", key="gpu", sizes=(2,)))
    alone = driver.core.explain("a1")
    assert alone is not None
    assert alone.reason == "nothing that is present could run it: it waits for a node with gpu=2"
    driver.api_node("x", search=Quota(concurrency=2, per_second=1.0, burst=1))
    driver.submit(action("a2", key="api:search"), action("a3", key="api:search"))
    why = driver.core.explain("a3")
    assert why is not None
    assert why.free == {"api:search": {"api:search": 0}}
    assert why.reason == "api:search lacks api:search=1 for it; it waits for actions there to end or for tokens"


def test_light_slots_units_on_their_way_and_who_is_before() -> None:
    driver = Driver(policy="live")
    driver.cpu_node("n", 1)
    driver.submit(*(action(f"a{place}", light=True) for place in range(1, 4)))
    light = driver.core.explain("a3")
    assert light is not None
    assert light.reason == "all light slots of n are taken"
    driver = Driver(policy="live")
    driver.cpu_node("n", 4)
    driver.submit(action("a1", sizes=(1, 4), malleable=True), action("a2"))
    held = driver.core.explain("a2")
    assert held is not None
    assert held.reason == "1 units of n are meant for it as soon as others have given them back"
