"""Trajectories that outlive their node's process, and those that only one node can hold."""

from __future__ import annotations

from scheduler.core.events import (
    NodeJoined,
    NodeLost,
    OpenSandbox,
    RefuseSandbox,
    Reject,
    Released,
    Restored,
    SandboxReady,
    TrajectoryClosed,
    TrajectoryOpened,
)
from tests.support.core import Driver, action, grants, rejects


def test_who_waits_for_an_adopted_sandbox_goes_on_waiting() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=300)
    driver.trajectory("kept", 100)
    driver.trajectory("gone", 100)
    driver.submit(action("a1", sizes=(2,), trajectory="kept"))
    driver.submit(action("a2", trajectory="kept"), action("a3", trajectory="gone"))
    assert rejects(driver.feed(NodeLost(5, "n", frozenset({"kept"})))) == {"a3": "sandbox_lost"}
    assert driver.where("a2") is None
    assert driver.submit(action("a4", trajectory="kept")) == []
    joined = driver.feed(NodeJoined(6, "n", "cpu", {"cpu": 2, "memory": 300}))
    assert grants(joined) == {"a2": ("n", 1), "a4": ("n", 1)}
    assert driver.core.holdings()[0].granted == {"cpu": 2, "memory": 100}


def test_a_sandbox_that_got_ready_unheard_is_ready_once_its_node_says_so() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=300)
    driver.trajectory("t", 100, ready=False)
    driver.submit(action("a1", trajectory="t"))
    driver.feed(NodeLost(5, "n", frozenset({"t"})))
    assert driver.feed(NodeJoined(6, "n", "cpu", {"cpu": 2, "memory": 300})) == []
    assert grants(driver.feed(SandboxReady(7, "t"))) == {"a1": ("n", 1)}


def test_an_adopted_sandbox_whose_node_never_comes_can_end() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=300)
    driver.trajectory("t", 100)
    driver.feed(NodeLost(5, "n", frozenset({"t"})))
    driver.submit(action("a1", trajectory="t"))
    closed = driver.feed(TrajectoryClosed(9, "t", "over"))
    assert rejects(closed) == {"a1": "sandbox_lost"}


def test_a_fork_goes_to_its_node_even_if_another_has_more_room() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=300)
    driver.cpu_node("m", 2, memory=900)
    assert driver.feed(TrajectoryOpened(1, "f", 100, "n")) == [OpenSandbox("f", "n")]


def test_a_fork_that_waits_holds_up_only_forks_of_the_same_node() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=300)
    driver.trajectory("t", 200)
    driver.cpu_node("m", 2, memory=300)
    assert driver.feed(TrajectoryOpened(1, "f", 150, "n")) == []
    assert driver.feed(TrajectoryOpened(2, "g", 50, "n")) == [], "it came later than f"
    assert driver.feed(TrajectoryOpened(3, "u", 250)) == [OpenSandbox("u", "m")]
    closed = driver.feed(TrajectoryClosed(4, "t"))
    assert [row for row in closed if isinstance(row, OpenSandbox)] == [OpenSandbox("f", "n"), OpenSandbox("g", "n")]


def test_who_waits_for_any_node_holds_up_no_fork() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=300)
    driver.trajectory("t", 100)
    assert driver.feed(TrajectoryOpened(1, "large", 300)) == []
    assert driver.feed(TrajectoryOpened(2, "f", 100, "n")) == [OpenSandbox("f", "n")]


def test_a_fork_that_is_too_big_for_its_node_is_refused() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=300)
    driver.cpu_node("m", 2, memory=900)
    (refused,) = driver.feed(TrajectoryOpened(1, "f", 500, "n"))
    assert isinstance(refused, RefuseSandbox)
    assert "trajectory f" in refused.detail


def test_a_waiting_fork_goes_with_its_node_unless_kept() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=300)
    driver.trajectory("t", 300)
    for name in ("f", "g"):
        driver.feed(TrajectoryOpened(1, name, 100, "n"))
        driver.submit(action(f"a-{name}1", trajectory=name))
    lost = driver.feed(NodeLost(2, "n", frozenset({"t", "g"})))
    assert rejects(lost) == {"a-f1": "sandbox_lost"}
    driver.cpu_node("n", 2, memory=300)
    closed = driver.feed(TrajectoryClosed(3, "t"))
    assert [row for row in closed if isinstance(row, OpenSandbox)] == [OpenSandbox("g", "n")]


def test_grants_of_the_old_process_are_gone_also_in_kept_sandboxes() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=300)
    driver.trajectory("t", 100)
    driver.feed(Restored(1, action("a1", sizes=(2,), trajectory="t"), "n", 2))
    driver.feed(NodeLost(2, "n", frozenset({"t"})))
    driver.cpu_node("n", 2, memory=300)
    driver.feed(Released(3, "a1"))
    assert driver.core.holdings()[0].granted == {"cpu": 0, "memory": 100}
    assert not [row for row in driver.submit(action("a2", trajectory="t")) if isinstance(row, Reject)]


def test_a_draining_node_gets_only_what_is_bound_to_it() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=900)
    driver.trajectory("t", 100)
    driver.feed(NodeJoined(1, "n", "cpu", {"cpu": 2, "memory": 900}, draining=True))
    assert driver.feed(TrajectoryOpened(2, "u", 100)) == []
    assert driver.submit(action("a1")) == []
    assert driver.feed(TrajectoryOpened(2, "f", 100, "n")) == [OpenSandbox("f", "n")]
    assert grants(driver.submit(action("a2", trajectory="t"))) == {"a2": ("n", 1)}
    joined = driver.cpu_node("m", 2, memory=500)
    assert OpenSandbox("u", "m") in joined
    assert grants(joined) == {"a1": ("m", 1)}


def test_who_waits_on_a_node_that_begins_to_drain_goes_elsewhere() -> None:
    driver = Driver()
    driver.cpu_node("n", 1, memory=900)
    driver.submit(action("a1"), action("a2"))
    assert driver.where("a2") == "n"
    driver.feed(NodeJoined(1, "n", "cpu", {"cpu": 1, "memory": 900}, draining=True))
    assert driver.where("a2") is None
    assert grants(driver.cpu_node("m", 1)) == {"a2": ("m", 1)}
