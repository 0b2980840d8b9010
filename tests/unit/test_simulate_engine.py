"""The engine against schedules computed by hand, and against books that are kept apart from it."""

from __future__ import annotations

import pytest

from compose.simulate.cluster import Cluster, Provider
from compose.simulate.engine import Engine
from compose.simulate.machines import Costs
from compose.simulate.outcome import Finished, Outcome
from compose.simulate.policies import simulate
from compose.simulate.work import Plan, Turn, Work
from compose.simulate.workloads.registry import find
from scheduler.core.events import Decision, Event, Grant, Released, Resize, Submitted, Tick
from tangram_tasks.errors import Infeasible, TangramError
from tests.support.simulation import FREE, cpu, elastic, gpu, plan, tool, workload


def rows(outcome: Outcome) -> list[tuple[str, int, int, int]]:
    """Return (task, queue, overhead, execution) in order of ending."""
    return [(row.task, row.queue, row.overhead, row.execution) for row in outcome.finished]


def test_a_schedule_by_hand() -> None:
    # One core. a arrives at 10 and runs until 110; b arrives at 20 and waits 90 ms; then a's second action, 5 ms after
    # its first ended, finds b running until 160.
    batch = workload(
        plan("a", (10, tool(100, "first")), (5, tool(30, "second"))),
        plan("b", (20, tool(50, "other"))),
    )
    outcome = simulate("paper", cpu(1), batch, FREE)
    assert rows(outcome) == [("first", 0, 0, 100), ("other", 90, 0, 50), ("second", 45, 0, 30)]
    assert outcome.step == 190
    assert outcome.gauges["cpu"].unit_ms() == 180


def test_costs_are_charged_where_they_fall() -> None:
    batch = workload(plan("a", (10, tool(100)), (10, tool(100))))
    outcome = simulate("paper", cpu(1), batch, Costs(cpu=7, sandbox=40))
    # The sandbox is asked for at the start, so the first gap hides 10 of its 40 ms.
    assert rows(outcome) == [("tool", 30, 7, 100), ("tool", 0, 7, 100)]
    assert outcome.step == 40 + 107 + 10 + 107


def test_actions_of_one_turn_run_side_by_side_and_the_next_turn_waits_for_all() -> None:
    turns = (Turn(0, (tool(10), tool(30))), Turn(5, (tool(1),)))
    outcome = simulate("paper", cpu(2), workload(Plan("a", turns, 0, 1)), FREE)
    assert outcome.step == 36


def test_only_so_many_trajectories_are_open_at_once() -> None:
    batch = workload(*(plan(f"t{place}", (0, tool(10))) for place in range(3)), live=1)
    assert simulate("paper", cpu(8), batch, FREE).step == 30


@pytest.mark.parametrize("name", ["coding", "swe"])
@pytest.mark.parametrize("policy", ["paper", "static"])
def test_units_held_over_time_are_units_held_by_actions(name: str, policy: str) -> None:
    source = find(name)
    batch = source.draw(name, 32, 3, 1.0)
    outcome = simulate(policy, source.cluster(32).resized(1), batch, Costs())
    assert len(outcome.finished) == batch.actions
    assert outcome.gauges["cpu"].unit_ms() == sum(row.held for row in outcome.finished)
    assert max(row.units for row in outcome.gauges["cpu"].rows) <= outcome.capacity["cpu"]
    last = outcome.gauges["cpu"].rows[-1]
    assert (last.units, last.waiting) == (0, 0)


@pytest.mark.parametrize("policy", ["paper", "static", "direct"])
def test_the_same_seed_gives_the_same_run(policy: str) -> None:
    source = find("deepsearch")
    batches = [source.draw("deepsearch", 24, 5, 1.0) for _ in range(2)]
    first, again = (simulate(policy, source.cluster(24), batch, Costs(), 5) for batch in batches)
    assert first.finished == again.finished
    for key, gauge in first.gauges.items():
        assert gauge.rows == again.gauges[key].rows


def test_what_fits_no_node_is_said() -> None:
    with pytest.raises(Infeasible, match=r"cannot run on this cluster.*largest, cpu-0"):
        simulate("paper", cpu(2), workload(plan("a", (0, elastic(100, (4,))), memory=None)), FREE)


class Scripted:
    """A scheduler that grants at once and does what it is told at certain moments.

    Args:
        script: ms to the units that the only action gets then.
    """

    def __init__(self, script: dict[int, int]) -> None:
        self._script = script
        self.heard: list[Event] = []

    def next_wake(self, now: int) -> int | None:
        return min((at for at in self._script if at >= now), default=None)

    def handle(self, event: Event) -> list[Decision]:
        self.heard.append(event)
        if isinstance(event, Submitted):
            return [Grant(event.action.id, "cpu-0", event.action.sizes[0])]
        if isinstance(event, Tick):
            return [Resize("reward-0", "cpu-0", self._script.pop(event.at))]
        return []


def finished(script: dict[int, int], costs: Costs = FREE) -> tuple[Finished, Outcome]:
    batch = workload(plan("a", (0, elastic(1000, malleable=True)), memory=None))
    outcome = Engine(Scripted(script), cpu(4), batch, costs).run()
    return outcome.finished[0], outcome


def test_after_a_resize_the_rest_goes_on_at_the_new_speed() -> None:
    # 400 of 1000 core-ms on 1 core, then 4 cores: 600 / 4 = 150 ms more. Then shrunk to 2 after another 100 ms.
    row, outcome = finished({400: 4})
    assert (row.execution, row.held) == (550, 400 * 1 + 150 * 4)
    row, outcome = finished({400: 4, 500: 2})
    assert (row.execution, row.held) == (400 + 100 + 100, 400 + 100 * 4 + 100 * 2)
    assert outcome.resizes == 2
    assert outcome.gauges["cpu"].unit_ms() == row.held


def test_a_resize_before_the_body_starts_counts_from_its_start() -> None:
    row, _ = finished({10: 4}, Costs(cpu=50))
    assert (row.overhead, row.execution) == (50, 250)
    assert row.held == 10 * 1 + 290 * 4


def test_a_policy_that_lets_somebody_wait_for_ever_is_named() -> None:
    class Deaf(Scripted):
        def handle(self, event: Event) -> list[Decision]:
            return []

    with pytest.raises(TangramError, match="reward-0: the policy is broken"):
        Engine(Deaf({}), cpu(1), workload(plan("a", (0, elastic(10)), memory=None)), FREE).run()


def test_every_action_is_released_once() -> None:
    scheduler = Scripted({})
    Engine(scheduler, cpu(1), workload(plan("a", (0, elastic(10)), (0, elastic(10)), memory=None)), FREE).run()
    assert [event.action for event in scheduler.heard if isinstance(event, Released)] == ["reward-0", "reward-1"]


def test_a_service_that_is_resident_costs_no_page_in() -> None:
    def score(service: str) -> Work:
        return Work("score", "gpu", (1,), (10,), service=service)

    batch = workload(
        plan("a", (0, score("x")), (0, score("x")), (0, score("y")), memory=None), restores={"x": 50, "y": 70}
    )
    outcome = simulate("paper", gpu(1), batch, Costs(gpu=1))
    assert rows(outcome) == [("score", 0, 51, 10), ("score", 0, 1, 10), ("score", 0, 71, 10)]
    assert outcome.page_ins == 2


def test_an_api_call_spends_the_quota_of_its_provider() -> None:
    call = Work("search", "api:web", (1,), (10,))
    batch = workload(*(plan(f"t{place}", (0, call), memory=None) for place in range(3)))
    cluster = Cluster(providers={"web": Provider(concurrency=3, per_second=1, burst=1)})
    queued = simulate("paper", cluster, batch, FREE)
    assert sorted(row.queue for row in queued.finished) == [0, 1000, 2000]
    assert queued.refused == 0
    direct = simulate("direct", cluster, batch, FREE)
    assert all(row.queue == 0 for row in direct.finished)
    assert direct.refused >= 2
    assert sum(row.overhead > 0 for row in direct.finished) == 2
