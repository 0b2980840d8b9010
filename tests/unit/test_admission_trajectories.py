"""Trajectories: where their sandboxes go, and their actions after them."""

from __future__ import annotations

from scheduler.core.events import (
    Cancelled,
    CloseSandbox,
    NodeLost,
    OpenSandbox,
    RefuseSandbox,
    Reject,
    Released,
    Restored,
    SandboxReady,
    Tick,
    TrajectoryClosed,
    TrajectoryOpened,
    TrajectoryRestored,
)
from tests.support.core import Driver, action, grants, rejects


def test_sandboxes_spread_over_free_memory() -> None:
    driver = Driver()
    driver.cpu_node("n", 4, memory=300)
    driver.cpu_node("m", 4, memory=250)
    opened = [driver.trajectory(f"t{place}", 100)[0] for place in range(5)]
    assert [row.node for row in opened if isinstance(row, OpenSandbox)] == ["n", "m", "n", "m", "n"]
    assert {row.domain: row.granted["memory"] for row in driver.core.holdings()} == {"n": 300, "m": 200}


def test_an_action_waits_aside_until_its_sandbox_is_ready_and_runs_there() -> None:
    driver = Driver()
    driver.cpu_node("n", 4, memory=500)
    driver.cpu_node("m", 64, memory=100)
    driver.trajectory("t", 200, ready=False)
    assert driver.submit(action("a1", sizes=(1, 2), trajectory="t")) == []
    assert driver.where("a1") is None
    assert grants(driver.feed(SandboxReady(5, "t"))) == {"a1": ("n", 2)}
    assert grants(driver.submit(action("a2", trajectory="t"))) == {"a2": ("n", 1)}


def test_a_sandboxs_memory_is_not_charged_again() -> None:
    driver = Driver()
    driver.cpu_node("n", 4, memory=200)
    driver.trajectory("t", 200)
    assert grants(driver.submit(action("a1", memory=200, trajectory="t"))) == {"a1": ("n", 1)}
    assert driver.core.holdings()[0].granted == {"cpu": 1, "memory": 200}


def test_an_action_without_a_trajectory_is_charged_its_memory() -> None:
    driver = Driver()
    driver.cpu_node("n", 4, memory=300)
    driver.trajectory("t", 200)
    assert grants(driver.submit(action("a1", memory=100), action("a2", memory=1))) == {"a1": ("n", 1)}
    assert driver.feed(TrajectoryOpened(1, "u", 100)) == []
    assert driver.feed(Released(2, "a1")) == [OpenSandbox("u", "n")]


def test_a_trajectory_waits_for_memory_first_come_first_served() -> None:
    driver = Driver()
    driver.cpu_node("n", 4, memory=300)
    driver.trajectory("t1", 200)
    assert driver.trajectory("t2", 150, ready=False) == []
    assert driver.trajectory("t3", 50, ready=False) == [], "it fits, but t2 came first"
    decisions = driver.feed(TrajectoryClosed(9, "t1"))
    assert decisions == [CloseSandbox("t1", "n"), OpenSandbox("t2", "n"), OpenSandbox("t3", "n")]


def test_a_trajectory_that_no_present_node_could_hold_is_refused() -> None:
    driver = Driver()
    driver.cpu_node("n", 4, memory=300)
    [refusal] = driver.feed(TrajectoryOpened(0, "t", 301))
    assert isinstance(refusal, RefuseSandbox)
    assert "trajectory t needs memory=301" in refusal.detail
    assert "n, has cpu=4 memory=300" in refusal.detail
    assert rejects(driver.submit(action("a1", trajectory="t"))) == {"a1": "trajectory_unknown"}


def test_without_a_cpu_node_trajectories_wait_and_are_judged_when_one_joins() -> None:
    driver = Driver()
    driver.gpu_node("g", 1)
    driver.trajectory("t1", 100, ready=False)
    driver.trajectory("t2", 900, ready=False)
    driver.submit(action("a1", trajectory="t2"))
    decisions = driver.cpu_node("n", 4, memory=300)
    assert [row.trajectory for row in decisions if isinstance(row, RefuseSandbox)] == ["t2"]
    assert rejects(decisions) == {"a1": "sandbox_lost"}
    assert OpenSandbox("t1", "n") in decisions


def test_an_unknown_trajectory_is_told_apart() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    assert rejects(driver.submit(action("a1", trajectory="t"))) == {"a1": "trajectory_unknown"}
    assert driver.core.waiting() == []


def test_more_memory_than_the_sandbox_has_is_infeasible() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.trajectory("t", 100)
    [reject] = driver.submit(action("a1", memory=101, trajectory="t"))
    assert isinstance(reject, Reject)
    assert reject.outcome == "infeasible"
    assert "needs 101 MiB, but the sandbox of trajectory t has 100" in reject.detail


def test_more_cpu_than_the_sandboxs_node_has_is_infeasible_at_once_or_when_it_is_ready() -> None:
    driver = Driver()
    driver.cpu_node("n", 4, memory=500)
    driver.cpu_node("m", 16, memory=100)
    driver.trajectory("t", 200, ready=False)
    [reject] = driver.submit(action("a1", sizes=(8,), trajectory="t"))
    assert isinstance(reject, Reject)
    assert "needs cpu=8, but node n, where its sandbox lives, has cpu=4" in reject.detail
    early = Driver()
    early.trajectory("t", 200, ready=False)
    early.submit(action("a1", sizes=(8,), trajectory="t"), action("a2", trajectory="t"))
    early.cpu_node("n", 4)
    decisions = early.feed(SandboxReady(1, "t"))
    assert rejects(decisions) == {"a1": "infeasible"}
    assert grants(decisions) == {"a2": ("n", 1)}


def test_a_sandboxed_action_that_asks_for_other_pools_is_infeasible() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.gpu_node("g", 4)
    driver.trajectory("t")
    wanted = [action("a1", key="gpu", trajectory="t"), action("a2", beside={"gpu": 1}, trajectory="t")]
    assert rejects(driver.submit(*wanted)) == {"a1": "infeasible", "a2": "infeasible"}


def test_closing_refuses_who_waits_and_lets_who_runs_finish() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=100)
    driver.trajectory("t", 100)
    driver.submit(action("a1", sizes=(2,), trajectory="t"), action("a2", trajectory="t"))
    decisions = driver.feed(TrajectoryClosed(5, "t", reason="lease ran out"))
    assert CloseSandbox("t", "n") in decisions
    assert rejects(decisions) == {"a2": "sandbox_lost"}
    assert any("lease ran out" in row.detail for row in decisions if isinstance(row, Reject))
    assert driver.core.holdings()[0].granted == {"cpu": 2, "memory": 0}
    driver.feed(Released(6, "a1"))
    assert driver.core.holdings()[0].granted == {"cpu": 0, "memory": 0}


def test_closing_before_there_was_a_node_closes_no_sandbox() -> None:
    driver = Driver()
    driver.trajectory("t", ready=False)
    driver.submit(action("a1", trajectory="t"))
    decisions = driver.feed(TrajectoryClosed(1, "t"))
    assert rejects(decisions) == {"a1": "sandbox_lost"}
    assert len(decisions) == 1
    assert driver.cpu_node("n", 4) == []


def test_a_lost_node_takes_its_trajectories_along() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=200)
    driver.trajectory("t", 100)
    driver.submit(action("a1", sizes=(2,), trajectory="t"), action("a2", trajectory="t"))
    driver.trajectory("u", 100, ready=False)
    driver.submit(action("a3", trajectory="u"))
    decisions = driver.feed(NodeLost(5, "n"))
    assert rejects(decisions) == {"a2": "sandbox_lost", "a3": "sandbox_lost"}
    assert "node n died" in str(decisions)
    assert rejects(driver.submit(action("a1", trajectory="t"))) == {"a1": "trajectory_unknown"}
    assert driver.feed(TrajectoryClosed(6, "t")) == []


def test_events_of_unknown_or_known_trajectories_change_nothing() -> None:
    driver = Driver()
    driver.cpu_node("n", 2, memory=200)
    driver.trajectory("t", 100)
    assert driver.feed(TrajectoryOpened(0, "t", 50)) == []
    assert driver.feed(TrajectoryRestored(0, "t", 50, "n", ready=False)) == []
    assert driver.feed(SandboxReady(0, "x")) == []
    assert driver.feed(TrajectoryClosed(0, "x")) == []
    assert driver.core.holdings()[0].granted["memory"] == 100
    unplaced = Driver()
    unplaced.trajectory("t")
    unplaced.submit(action("a1", trajectory="t"))
    assert unplaced.cpu_node("n", 1) == [OpenSandbox("t", "n")], "a sandbox that has no node cannot be ready"


def test_deadlines_and_cancels_reach_who_waits_aside() -> None:
    driver = Driver()
    driver.cpu_node("n", 2)
    driver.trajectory("t", ready=False)
    driver.submit(action("a1", trajectory="t", deadline=10), action("a2", trajectory="t"))
    assert rejects(driver.feed(Tick(10))) == {"a1": "no_capacity"}
    driver.feed(Cancelled(11, "a2"))
    assert driver.feed(SandboxReady(12, "t")) == []


def test_pinned_actions_stay_when_another_node_joins() -> None:
    driver = Driver()
    driver.cpu_node("n", 1)
    driver.trajectory("t")
    driver.submit(action("a1", trajectory="t"), action("a2", trajectory="t"))
    assert driver.cpu_node("m", 8) == []
    assert driver.where("a2") == "n"


def test_a_node_that_shrinks_refuses_pinned_actions_it_can_no_longer_hold() -> None:
    driver = Driver()
    driver.cpu_node("n", 4)
    driver.trajectory("t")
    driver.submit(action("a1", sizes=(4,), trajectory="t"), action("a2", sizes=(4,), trajectory="t"))
    assert rejects(driver.cpu_node("n", 2)) == {"a2": "infeasible"}


def test_restored_trajectories_hold_memory_whether_the_node_came_before_or_comes_after() -> None:
    for node_first in (True, False):
        driver = Driver()
        if node_first:
            driver.cpu_node("n", 4, memory=300)
        driver.feed(TrajectoryRestored(0, "t1", 100, "n", ready=True))
        driver.feed(TrajectoryRestored(0, "t2", 150, "n", ready=False))
        driver.feed(Restored(0, action("a1", memory=100, sizes=(3,), trajectory="t1"), "n", 3))
        decisions = driver.submit(action("a2", trajectory="t1"), action("a3", trajectory="t2"))
        if not node_first:
            decisions += driver.cpu_node("n", 4, memory=300)
        assert grants(decisions) == {"a2": ("n", 1)}
        assert driver.core.holdings()[0].granted == {"cpu": 4, "memory": 250}
        driver.feed(Released(1, "a2"))
        assert grants(driver.feed(SandboxReady(2, "t2"))) == {"a3": ("n", 1)}
        assert driver.feed(TrajectoryOpened(3, "t4", 60)) == [], "only 50 MiB are free"


def test_a_restored_trajectory_whose_node_never_comes_can_end() -> None:
    driver = Driver()
    driver.feed(TrajectoryRestored(0, "t1", 100, "n", ready=True))
    driver.feed(TrajectoryRestored(0, "t2", 100, "n", ready=True))
    driver.submit(action("a1", trajectory="t1"), action("a2", trajectory="t2"))
    assert CloseSandbox("t1", "n") in driver.feed(TrajectoryClosed(1, "t1"))
    assert rejects(driver.feed(NodeLost(2, "n"))) == {"a2": "sandbox_lost"}
    assert driver.core.waiting() == []
