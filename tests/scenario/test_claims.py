"""The claims that action-level scheduling makes, in their direction, on small batches in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import pytest

from compose.simulate.cluster import Cluster, Provider
from compose.simulate.machines import Costs
from compose.simulate.outcome import Outcome
from compose.simulate.policies import simulate
from compose.simulate.workloads.jobs import alone
from compose.simulate.workloads.registry import find

SEEDS = (1, 2, 3)


def runs(workload: str, batch: int, policy: str, cluster: Cluster | None = None, share: float = 1.0) -> list[Outcome]:
    """Run the same draws whatever the policy."""
    source = find(workload)
    machines = cluster or source.cluster(batch)
    return [simulate(policy, machines, source.draw(workload, batch, seed, share), Costs(), seed) for seed in SEEDS]


def act(outcomes: Sequence[Outcome]) -> float:
    return fmean(fmean(outcome.acts()) for outcome in outcomes)


def p99(outcomes: Sequence[Outcome]) -> float:
    return fmean(outcome.acts()[int(0.99 * len(outcome.finished))] for outcome in outcomes)


def step(outcomes: Sequence[Outcome]) -> float:
    return fmean(outcome.step for outcome in outcomes)


@pytest.mark.parametrize("policy", ["paper", "live"])
def test_per_action_beats_reserved_pods(policy: str) -> None:
    machines = find("coding").cluster(128).resized(1)
    static, ours = (runs("coding", 128, name, machines) for name in ("static", policy))
    assert act(ours) < act(static) / 2
    assert step(ours) < step(static)


def test_sharing_beats_one_core_per_session_on_the_measured_sessions() -> None:
    static, ours = (runs("swe", 96, name) for name in ("static", "live"))
    assert act(ours) < act(static)
    assert step(ours) <= step(static)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_sizes_that_change_beat_sizes_for_life(share: float) -> None:
    machines = find("coding").cluster(192).resized(2)
    paper, live = (runs("coding", 192, name, machines, share) for name in ("paper", "live"))
    assert act(live) < act(paper)
    assert step(live) < step(paper)
    assert p99(live) < 1.1 * p99(paper)


def test_elastic_sizes_beat_the_smallest_size() -> None:
    machines = find("coding").cluster(192).resized(3)
    smallest, ours = (runs("coding", 192, name, machines) for name in ("min", "live"))
    assert act(ours) < act(smallest)
    assert step(ours) < step(smallest)


def test_residency_first_beats_first_come_first_served_on_gpus() -> None:
    paper, residency = (runs("mopd", 3072, name) for name in ("paper", "residency"))
    assert act(residency) < 0.75 * act(paper)
    smaller_paper, smaller = (runs("mopd", 1024, name) for name in ("paper", "residency"))
    assert act(smaller) < 0.8 * act(smaller_paper)
    assert sum(outcome.page_ins for outcome in residency) < sum(outcome.page_ins for outcome in paper)


def test_a_shared_pool_needs_fewer_gpus_than_dedicated_ones() -> None:
    static, residency = (runs("mopd", 512, name) for name in ("static", "residency"))
    assert residency[0].capacity["gpu"] < 0.5 * static[0].capacity["gpu"]
    assert step(residency) <= 1.01 * step(static)


def test_a_light_job_is_hardly_slower_beside_a_heavy_one() -> None:
    source = find("two-jobs")
    beside: list[int] = []
    by_itself: list[int] = []
    for seed in SEEDS:
        both = source.draw("two-jobs", 256, seed, 1.0)
        for batch, rows in ((both, beside), (alone(both, "light"), by_itself)):
            finished = simulate("live", source.cluster(256), batch, Costs()).finished
            rows += [row.act for row in finished if row.task.startswith("light")]
    assert len(beside) == len(by_itself) > 0
    assert fmean(beside) < 1.3 * fmean(by_itself)


def test_a_static_service_gets_the_devices_it_needs_at_least() -> None:
    drawn = find("mopd").draw("mopd", 64, 1, 1.0)
    found = {
        group: simulate(f"static:1:{group}", find("mopd").cluster(64), drawn, Costs()).capacity["gpu"]
        for group in (1, 2, 4)
    }
    assert found == {1: 18, 2: 22, 4: 36}


def test_a_central_quota_spares_429s_and_the_long_tail() -> None:
    machines = find("deepsearch").cluster(128)
    machines = machines.model_copy(update={"providers": {"search": Provider(concurrency=20, per_second=7, burst=7)}})
    direct, central = (runs("deepsearch", 128, name, machines) for name in ("direct", "paper"))
    assert sum(outcome.refused for outcome in central) == 0
    assert sum(outcome.refused for outcome in direct) > 0.5 * sum(len(outcome.finished) for outcome in direct)
    assert p99(central) < 0.5 * p99(direct)
    assert step(central) <= 1.05 * step(direct)
