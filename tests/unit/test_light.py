"""Light actions: counted, not sized, and never behind the others."""

from __future__ import annotations

from scheduler.core.light import SLOTS_PER_UNIT
from tests.support.core import Driver, action, grants


def test_a_light_action_passes_a_full_node() -> None:
    driver = Driver()
    driver.cpu_node("n", 1)
    driver.submit(action("a1"), action("a2"))
    assert grants(driver.submit(action("a3", light=True))) == {"a3": ("n", 0)}


def test_light_slots_are_bounded_and_given_back() -> None:
    driver = Driver()
    driver.cpu_node("n", 2)
    names = [f"a{count}" for count in range(2 * SLOTS_PER_UNIT + 2)]
    granted = grants(driver.submit(*(action(name, light=True) for name in names)))
    assert list(granted) == names[: 2 * SLOTS_PER_UNIT]
    assert grants(driver.release(names[0])) == {names[-2]: ("n", 0)}
    assert driver.where(names[-1]) == "n"


def test_light_actions_take_memory_but_no_cpu() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=10)
    driver.submit(action("a1", light=True, memory=8), action("a2", light=True, memory=8))
    [row] = driver.core.holdings()
    assert (row.granted, row.running, row.waiting) == ({"cpu": 0, "memory": 8}, 1, 1)


def test_they_come_before_who_waits_for_cores_in_one_event() -> None:
    driver = Driver()
    driver.submit(action("a1"), action("a2", light=True))
    assert grants(driver.cpu_node("n", 1)) == {"a2": ("n", 0), "a1": ("n", 1)}
