"""GPU services: where they are, and policy "residency"."""

from __future__ import annotations

import pytest

from scheduler.core.events import Action, Decision, NodeJoined, NodeLost, PageIn, Tick
from scheduler.core.residency import AGING, PATIENCE
from scheduler.core.warmth import Warmth
from tests.support.core import Driver, action, grants, rejects


def gpu(
    name: str, service: str | None, arrival: int = 0, sizes: tuple[int, ...] = (1,), duration: int = 5000
) -> Action:
    durations = [duration] * len(sizes)
    return action(name, key="gpu", sizes=sizes, durations=durations, service=service, arrival=arrival)


def scaled(name: str) -> Action:
    """Return an action that is twice as fast on twice the devices."""
    return action(name, key="gpu", sizes=(1, 2, 4), durations=[4000, 2000, 1000], service="judge")


def page_ins(decisions: list[Decision]) -> list[PageIn]:
    return [row for row in decisions if isinstance(row, PageIn)]


def test_an_action_goes_only_to_a_node_that_holds_its_service() -> None:
    driver = Driver()
    driver.gpu_node("g1", 4, "judge")
    driver.gpu_node("g2", 1, "teacher")
    assert grants(driver.submit(gpu("a1", "teacher"))) == {"a1": ("g2", 1)}
    assert driver.submit(gpu("a2", "teacher")) == []
    assert driver.where("a2") == "gpu pool"
    assert grants(driver.release("a1")) == {"a2": ("g2", 1)}
    assert grants(driver.submit(gpu("a3", None))) == {"a3": ("g1", 1)}


def test_a_service_that_no_node_holds_is_infeasible_and_the_others_are_named() -> None:
    driver = Driver()
    driver.gpu_node("g1", 4, "judge", "teacher")
    [reject] = driver.submit(gpu("a1", "critic"))
    assert "critic, which no gpu node holds; the services there are: judge, teacher" in str(reject)
    assert rejects([reject]) == {"a1": "infeasible"}


def test_too_many_devices_are_counted_on_the_nodes_that_hold_the_service() -> None:
    driver = Driver()
    driver.gpu_node("g1", 4, "judge")
    driver.gpu_node("g2", 1, "teacher")
    [reject] = driver.submit(gpu("a1", "teacher", sizes=(2,)))
    assert "the largest, g2, has gpu=1" in str(reject)


def test_actions_wait_for_a_gpu_node_whatever_their_service() -> None:
    driver = Driver()
    assert driver.submit(gpu("a1", "judge")) == []
    assert grants(driver.gpu_node("g1", 1, "judge")) == {"a1": ("g1", 1)}


def test_a_node_that_drops_a_service_loses_who_waits_for_it() -> None:
    driver = Driver()
    driver.gpu_node("g1", 1, "judge", "teacher")
    driver.submit(gpu("a1", "judge"), gpu("a2", "teacher"))
    assert rejects(driver.feed(NodeJoined(0, "g1", "gpu", {"gpu": 1}, services=("judge",)))) == {"a2": "infeasible"}


def test_a_warm_service_goes_first_up_to_the_aging() -> None:
    driver = Driver()
    driver.gpu_node("g1", 1, "judge", "teacher")
    driver.submit(gpu("a1", "judge"))
    driver.submit(gpu("a2", "teacher", arrival=10), gpu("a3", "judge", arrival=20))
    driver.at = 100
    assert grants(driver.release("a1")) == {"a3": ("g1", 1)}
    driver.submit(gpu("a4", "judge", arrival=10 + AGING + 1))
    driver.at = 20 + AGING
    assert grants(driver.release("a3")) == {"a2": ("g1", 1)}, "who waited longer by the aging comes first"


def test_an_action_waits_for_a_warm_device_that_is_nearly_free() -> None:
    driver = Driver()
    driver.gpu_node("g1", 2, "judge", "teacher")
    driver.submit(gpu("a1", "judge", duration=300))
    assert driver.submit(gpu("a2", "judge")) == []
    assert grants(driver.submit(gpu("a3", "teacher"))) == {"a3": ("g1", 1)}
    assert grants(driver.release("a1")) == {"a2": ("g1", 1)}


def test_it_stops_waiting_when_that_device_is_late() -> None:
    driver = Driver()
    driver.gpu_node("g1", 2, "judge")
    driver.submit(gpu("a1", "judge", duration=300))
    driver.submit(gpu("a2", "judge"))
    assert driver.core.next_wake(0) == 300
    assert grants(driver.feed(Tick(300))) == {"a2": ("g1", 1)}


def test_who_finds_nothing_warm_gets_the_smallest_size() -> None:
    driver = Driver()
    driver.gpu_node("g1", 8, "judge")
    assert grants(driver.submit(gpu("a1", "judge", sizes=(1, 2, 4)))) == {"a1": ("g1", 1)}


def test_an_action_grows_onto_warm_devices_unless_others_wait() -> None:
    driver = Driver()
    driver.gpu_node("g1", 4, "judge")
    driver.submit(scaled("a1"))
    driver.release("a1")  # the idle devices have taken the service in meanwhile
    assert grants(driver.submit(scaled("a2"))) == {"a2": ("g1", 4)}
    driver.submit(scaled("a3"), scaled("a4"))
    assert grants(driver.release("a2")) == {"a3": ("g1", 1), "a4": ("g1", 1)}


def test_hints_tell_idle_devices_to_take_in_what_was_asked_for() -> None:
    driver = Driver()
    driver.gpu_node("g1", 4, "judge", "teacher")
    first = driver.submit(scaled("a1"))
    assert first[0] == PageIn("g1", "judge", (0,)), "the scheduler says where a cold service goes, before the grant"
    assert [hint for hint in first if isinstance(hint, PageIn)][1:] == [PageIn("g1", "judge", (1, 2, 3))]
    assert page_ins(driver.release("a1")) == [], "nothing is missing"


def test_a_hint_never_takes_what_is_wanted_or_in_use() -> None:
    driver = Driver()
    driver.gpu_node("g1", 4, "judge", "teacher")
    driver.submit(gpu("a1", "teacher"))
    assert page_ins(driver.submit(scaled("a2")))[-1].devices == (2, 3), "a pair that nobody needs"
    assert page_ins(driver.release("a1")) == [], "the teacher's only device is wanted"


def test_a_draining_node_gets_no_hints() -> None:
    driver = Driver()
    driver.gpu_node("g1", 1, "judge")
    driver.gpu_node("g2", 4, "judge")
    driver.feed(NodeJoined(0, "g2", "gpu", {"gpu": 4}, services=("judge",), draining=True))
    assert {hint.node for hint in page_ins(driver.submit(scaled("a1")))} == {"g1"}


def test_other_policies_give_no_hints() -> None:
    driver = Driver(gpu_policy="paper")
    driver.gpu_node("g1", 4, "judge")
    assert page_ins(driver.submit(scaled("a1"))) == []


def test_an_action_goes_where_its_service_is_and_not_where_most_is_free() -> None:
    driver = Driver()
    driver.gpu_node("g1", 2, "judge", "teacher")
    driver.submit(gpu("a1", "judge"))
    driver.release("a1")
    driver.gpu_node("g2", 4, "judge", "teacher")
    assert grants(driver.submit(gpu("a2", "judge"))) == {"a2": ("g1", 1)}


@pytest.mark.parametrize("policy", ["residency", "paper", "min"])
def test_who_waits_takes_the_node_that_falls_free_first(policy: str) -> None:
    for first in ("a1", "a2"):
        driver = Driver(gpu_policy=policy)
        driver.gpu_node("g1", 1, "judge")
        driver.gpu_node("g2", 1, "judge")
        homes = grants(driver.submit(gpu("a1", "judge"), gpu("a2", "judge"), gpu("a3", "judge")))
        assert sorted(homes) == ["a1", "a2"]
        assert grants(driver.release(first)) == {"a3": homes[first]}


@pytest.mark.parametrize("policy", ["residency", "paper", "min"])
def test_nobody_gets_devices_of_two_nodes(policy: str) -> None:
    driver = Driver(gpu_policy=policy)
    driver.gpu_node("g1", 2, "judge")
    driver.gpu_node("g2", 2, "judge")
    homes = grants(driver.submit(*(gpu(f"a{place}", "judge") for place in range(4))))
    on_g1, on_g2 = ([name for name, (node, _) in homes.items() if node == home] for home in ("g1", "g2"))
    driver.release(on_g1[0])
    driver.release(on_g2[0])
    assert grants(driver.submit(gpu("a4", "judge", sizes=(2,)))) == {}, "each node has one device, both together two"
    assert grants(driver.release(on_g2[1])) == {"a4": ("g2", 2)}


def test_a_node_that_is_lost_leaves_the_queue_to_the_others() -> None:
    driver = Driver()
    driver.gpu_node("g1", 1, "judge", "teacher")
    driver.gpu_node("g2", 1, "judge")
    driver.submit(gpu("a1", "teacher"), gpu("a2", "judge"), gpu("a3", "judge"), gpu("a4", "teacher"))
    assert rejects(driver.feed(NodeLost(1, "g1"))) == {"a4": "infeasible"}, "no node that is left has its service"
    assert grants(driver.release("a2")) == {"a3": ("g2", 1)}
    assert grants(driver.gpu_node("g1", 1, "judge")) == {}


def test_a_draining_node_starts_nothing_and_ends_what_runs() -> None:
    driver = Driver()
    driver.gpu_node("g1", 2, "judge")
    driver.submit(gpu("a1", "judge"))
    driver.feed(NodeJoined(0, "g1", "gpu", {"gpu": 2}, services=("judge",), draining=True))
    driver.submit(gpu("a2", "judge"))
    assert driver.where("a2") is None
    assert grants(driver.release("a1")) == {}
    assert grants(driver.gpu_node("g2", 1, "judge")) == {"a2": ("g2", 1)}


def test_a_wide_action_that_waited_long_keeps_one_node_for_itself() -> None:
    driver = Driver()
    driver.gpu_node("g1", 2, "judge")
    driver.gpu_node("g2", 2, "judge")
    driver.submit(gpu("a1", "judge"), gpu("a2", "judge"), gpu("a3", "judge"))
    driver.submit(gpu("a4", "judge", sizes=(2,)))
    driver.at = PATIENCE + 1
    assert grants(driver.submit(gpu("a5", "judge", arrival=driver.at))) == {}, "the device is kept for who waited"


def test_nobody_passes_on_a_node_who_waits_for_it_under_first_come_first_served() -> None:
    driver = Driver(gpu_policy="min")
    driver.gpu_node("g1", 2, "judge")
    driver.gpu_node("g2", 1, "teacher")
    driver.submit(gpu("a1", "judge"), gpu("a2", "judge", sizes=(2,)))
    assert grants(driver.submit(gpu("a3", "judge"))) == {}
    assert grants(driver.submit(gpu("a4", "teacher"))) == {"a4": ("g2", 1)}


def test_small_actions_pass_one_that_lacks_devices_for_a_while() -> None:
    driver = Driver()
    driver.gpu_node("g1", 4, "judge", "teacher")
    driver.submit(gpu("a1", "judge", sizes=(2,)))
    assert driver.submit(gpu("a2", "teacher", sizes=(4,))) == []
    assert grants(driver.submit(gpu("a3", "judge"))) == {"a3": ("g1", 1)}
    driver.at = PATIENCE + 1
    assert grants(driver.submit(gpu("a4", "judge", arrival=driver.at))) == {}


def test_warmth_prefers_devices_that_hold_the_service_and_then_the_oldest() -> None:
    warmth = Warmth(3)
    for name, service in (("a", "s1"), ("b", "s2"), ("c", "s3")):
        warmth.occupy(name, service, 1)
    for name in "abc":
        warmth.leave(name)
    warmth.occupy("d", "s2", 1)
    assert warmth.idle() == {"s1": 1, "s3": 1}
    warmth.occupy("e", "s4", 1)
    assert warmth.idle() == {"s3": 1}
    warmth.resize(2)
    assert warmth.idle() == {}


def test_a_node_is_told_which_services_come_next_each_once() -> None:
    driver = Driver()
    driver.gpu_node("g1", 1, "judge", "teacher", "critic")
    driver.submit(gpu("a1", "judge"), gpu("a2", "teacher"), gpu("a3", "critic"), gpu("a4", "teacher"), gpu("a5", None))
    assert driver.core.next_services("g1") == ("teacher", "critic")
    assert driver.core.next_services("nobody") == ()
