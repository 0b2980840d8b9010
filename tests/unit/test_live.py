"""Policy "live" in an Admission: running actions grow and shrink, and nobody waits without a bound."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from benchmarks.live_vectors import differences, scene
from benchmarks.vectors import PACKAGED_LIVE, load
from scheduler.core.events import Cancelled, Grant, NodeLost, Reject, Resize, Restored, Tick
from scheduler.core.live import SPACING
from tests.support.core import Driver, action, grants, resizes

SIZES = (1, 2, 4, 8)


@pytest.mark.parametrize("instance", load(PACKAGED_LIVE), ids=lambda instance: str(instance["name"]))
def test_policy_live_decides_as_the_vectors_say(instance: dict[str, object]) -> None:
    assert differences(instance) == []


def live(cpu: int = 8, *, memory: int = 1024, **options: Any) -> Driver:
    driver = Driver(policy="live", **options)
    driver.cpu_node("n", cpu, memory)
    return driver


def test_a_malleable_action_starts_with_all_that_is_free() -> None:
    assert grants(live().submit(action("a1", sizes=SIZES, malleable=True))) == {"a1": ("n", 8)}


def test_who_waits_gets_the_units_when_the_node_has_them_back() -> None:
    driver = live()
    driver.submit(action("a1", sizes=SIZES, malleable=True))
    asked = driver.submit(action("a2"))
    assert asked == [Resize("a1", "n", 4)]
    assert driver.where("a2") == "n"
    answered = driver.resized("a1", 4)
    assert Grant("a2", "n", 1) in answered


def test_a_simulated_node_shrinks_at_once() -> None:
    driver = live(instant_resize=True)
    driver.submit(action("a1", sizes=SIZES, malleable=True))
    assert driver.submit(action("a2")) == [Resize("a1", "n", 4), Grant("a2", "n", 1)]


def test_units_of_a_shrink_are_promised_once() -> None:
    driver = live()
    driver.submit(action("a1", sizes=SIZES, malleable=True))
    driver.submit(action("a2", sizes=(4,), durations=(100,)))
    assert driver.submit(action("a3", sizes=(4,), durations=(100,))) == []  # the order in flight must be answered first
    assert grants(driver.resized("a1", 4)) == {"a2": ("n", 4)}


def test_a_held_back_action_that_is_cancelled_gives_its_units_back() -> None:
    driver = live()
    driver.submit(action("a1", sizes=SIZES, malleable=True))
    driver.submit(action("a2"))
    driver.feed(Cancelled(0, "a2"))
    assert driver.resized("a1", 4) == []
    assert resizes(driver.feed(Tick(SPACING))) == {"a1": 8}
    assert driver.core.waiting() == []


def test_a_held_back_action_past_its_deadline_is_refused() -> None:
    driver = live()
    driver.submit(action("a1", sizes=SIZES, malleable=True))
    driver.submit(action("a2", deadline=50))
    decisions = driver.feed(Tick(50))
    assert [(row.action, row.outcome) for row in decisions if isinstance(row, Reject)] == [("a2", "no_capacity")]


def test_a_held_back_action_moves_on_when_its_node_dies() -> None:
    driver = live()
    driver.submit(action("a1", sizes=SIZES, malleable=True))
    driver.submit(action("a2"))
    driver.cpu_node("m", 4)
    assert grants(driver.feed(NodeLost(0, "n"))) in ({"a2": ("m", 1)}, {})
    assert all(row.action != "a2" for row in driver.core.waiting())


def test_a_node_that_refuses_is_not_asked_again() -> None:
    driver = live()
    driver.submit(action("a1", sizes=SIZES, malleable=True))
    driver.submit(action("a2"))
    assert driver.resized("a1", 8) == []
    assert driver.submit(action("a3")) == []
    assert grants(driver.release("a1")) == {"a2": ("n", 1), "a3": ("n", 1)}


def test_freed_units_go_to_the_best_relative_speed_up() -> None:
    driver = live(4)
    driver.submit(action("a1", sizes=(1, 2), durations=(1000, 900), malleable=True), action("a2", sizes=(2,)))
    driver.submit(action("a3", sizes=(1, 2), durations=(100, 55), malleable=True))
    driver.resized("a1", 1)
    driver.at = SPACING
    assert resizes(driver.release("a2")) == {"a1": 2, "a3": 2}


def test_voluntary_resizes_of_one_action_are_spaced() -> None:
    driver = live(instant_resize=True)
    driver.submit(action("a1", sizes=SIZES, malleable=True), action("a2"))
    driver.at = 10
    assert driver.release("a2") == []
    assert driver.core.next_wake(10) == SPACING
    assert driver.feed(Tick(SPACING)) == [Resize("a1", "n", 8)]


def test_jobs_are_levelled_by_weight() -> None:
    driver = live(9, instant_resize=True, weights={"heavy": 2})
    sizes = tuple(range(1, 10))
    driver.submit(action("a1", sizes=sizes, malleable=True, job="light"))
    driver.submit(action("a2", sizes=sizes, malleable=True, job="heavy"))
    for turn in range(1, 5):
        driver.feed(Tick(turn * SPACING))
        driver.submit(action(f"b{turn}", durations=(1,)))
        driver.at = turn * SPACING
        driver.release(f"b{turn}")
    driver.feed(Tick(10 * SPACING))
    held = {name: hold.units["cpu"] for name, hold in driver.core._places.cpu.nodes["n"].running.items()}
    assert Fraction(held["a2"], held["a1"]) == 2


def test_nobody_is_evicted_after_its_patience() -> None:
    evicting = [instance for instance in load(PACKAGED_LIVE) if instance["expect"]["evicted"]]
    assert len(evicting) >= 4
    for instance in evicting:
        names = set(instance["expect"]["evicted"])
        for waited, evicted in ((29_999, True), (30_000, False)):
            old = [{**row, "arrival": instance["now"] - waited} for row in instance["queue"]]
            gate = scene({**instance, "queue": old})
            assert bool(names & {int(name) for name in gate.decide()[0]}) is evicted


def test_an_evicted_action_starts_when_units_fall_free() -> None:
    driver = live(8, instant_resize=True)
    driver.submit(action("a1", sizes=(1, 8), durations=(8000, 1000), malleable=True), action("a2", sizes=(4,)))
    driver.submit(action("a3", sizes=(1, 4), durations=(900, 300)))
    driver.release("a1")
    driver.release("a2")
    assert driver.core.waiting() == []


def test_a_head_that_lacks_memory_is_passed_only_while_it_is_patient() -> None:
    driver = live(8, memory=100)
    driver.submit(action("a1", memory=60), action("a2", memory=60))
    assert grants(driver.submit(action("a3", memory=10))) == {"a3": ("n", 1)}
    driver.at = 10_000
    assert driver.submit(action("a4", memory=10)) == []
    assert grants(driver.release("a1")) == {"a2": ("n", 1), "a4": ("n", 1)}


def test_restoring_grants_decides_nothing() -> None:
    driver = live(8)
    first = action("a1", sizes=SIZES, malleable=True)
    assert driver.feed(Restored(0, first, "n", 1)) == []
    assert driver.feed(Restored(0, action("a2", sizes=(7,)), "n", 7)) == []


def test_what_an_overdrawn_node_takes_back_is_not_given_away() -> None:
    driver = live(8)
    driver.submit(action("a1", sizes=(1, 2, 4), malleable=True), action("a2", sizes=(1, 2, 4)))
    driver.submit(action("a3", sizes=(1, 2, 4), malleable=True))
    driver.resized("a1", 4)  # it refuses: nine units are promised now
    assert driver.submit(action("a4")) == []
    assert set(grants(driver.release("a2"))) == {"a3", "a4"}
