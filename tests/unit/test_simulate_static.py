"""The baseline that reserves: pods per trajectory, devices per service."""

from __future__ import annotations

import pytest

from compose.simulate.policies import check, simulate
from compose.simulate.work import Work
from tangram_tasks.errors import ConfigurationError, Infeasible
from tests.support.simulation import FREE, cpu, elastic, gpu, plan, tool, workload


def test_a_pod_is_held_from_the_first_gap_to_the_last_action() -> None:
    batch = workload(plan("a", (100, tool(50)), (100, tool(50))), plan("b", (0, tool(10))))
    outcome = simulate("static:4", cpu(4), batch, FREE)
    # b finds no place until a is over at 300, and its first call waits for that.
    assert [(row.queue, row.execution) for row in outcome.finished] == [(0, 50), (0, 50), (300, 10)]
    assert outcome.reserved["cpu"] == 4 * 310
    assert outcome.gauges["cpu"].unit_ms() == 110


def test_an_action_gets_the_largest_size_that_its_pod_has() -> None:
    batch = workload(plan("a", (0, elastic(1000, (1, 2, 4, 8)))))
    assert simulate("static:4", cpu(64), batch, FREE).step == 250
    assert simulate("static:6", cpu(64), batch, FREE).step == 250


def test_a_pod_too_small_for_an_action_is_said() -> None:
    with pytest.raises(Infeasible, match="needs 4 cpu, and its static reservation has 2: reserve more"):
        simulate("static:2", cpu(64), workload(plan("a", (0, elastic(100, (4, 8))))), FREE)


def test_a_service_has_devices_of_its_own() -> None:
    def score(service: str) -> Work:
        return Work("score", "gpu", (1, 2), (100, 60), service=service)

    plans = [plan(f"t{place}", (0, score(service)), memory=None) for place, service in enumerate("xxy")]
    batch = workload(*plans, restores={"x": 0, "y": 0}, static_gpus=2)
    outcome = simulate("static", gpu(2), batch, FREE)
    # The second of x waits for the first; y runs beside them on devices that had to be added.
    assert sorted((row.queue, row.execution) for row in outcome.finished) == [(0, 60), (0, 60), (60, 60)]
    assert outcome.capacity["gpu"] == 4
    assert outcome.reserved["gpu"] == 4 * 120
    with pytest.raises(Infeasible, match="no GPU node has the 2 devices"):
        simulate("static", gpu(1), batch, FREE)


@pytest.mark.parametrize("name", ["static", "static:16", "direct", "paper"])
def test_known_policies(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", ["static:0", "static:x", "papers", ""])
def test_unknown_policies_are_refused_with_the_choice(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"static:CORES"):
        check(name)
