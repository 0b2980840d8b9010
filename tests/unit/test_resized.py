"""What the core does when a running action holds other units than it was granted."""

from __future__ import annotations

from scheduler.core.events import NodeJoined, Resized, Restored
from tests.support.core import Driver, action, grants


def test_units_that_an_action_gave_up_go_to_who_waits() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    assert grants(driver.submit(action("a1", sizes=(1, 2, 4)))) == {"a1": ("n", 4)}
    assert driver.submit(action("a2", sizes=(2,))) == []
    assert grants(driver.feed(Resized(1, "a1", 2))) == {"a2": ("n", 2)}
    assert dict(driver.core.holdings()[0].granted)["cpu"] == 4


def test_units_that_an_action_grew_by_are_not_granted() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.submit(action("a1"))
    driver.feed(Resized(1, "a1", 3))
    assert driver.submit(action("a2", sizes=(2,))) == []


def test_an_action_that_holds_nothing_is_ignored() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    assert driver.feed(Resized(1, "nobody", 3)) == []
    assert dict(driver.core.holdings()[0].granted)["cpu"] == 0


def test_a_restored_grant_may_change_before_its_node_joins() -> None:
    driver = Driver()
    driver.feed(Restored(0, action("a1", sizes=(1, 2, 4)), "n", 4))
    driver.feed(Resized(1, "a1", 1))
    driver.feed(NodeJoined(2, "n", "cpu", {"cpu": 4, "memory": 100}))
    assert dict(driver.core.holdings()[0].granted)["cpu"] == 1
