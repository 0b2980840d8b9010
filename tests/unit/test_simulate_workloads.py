"""The packaged workloads against the laws they are drawn from."""

from __future__ import annotations

import math
from statistics import fmean, median

import pytest

from compose.simulate.work import Work, Workload
from compose.simulate.workloads import coding, deepsearch, mopd, swe
from compose.simulate.workloads.draws import amdahl
from compose.simulate.workloads.registry import find, sources
from tangram_tasks.errors import ConfigurationError


def works(workload: Workload, task: str) -> list[Work]:
    return [work for plan in workload.plans for turn in plan.turns for work in turn.actions if work.task == task]


@pytest.mark.parametrize("name", list(sources()))
def test_equal_seeds_draw_equal_batches_of_the_size_asked_for(name: str) -> None:
    source = find(name)
    batch = source.draw(name, 20, 7, 0.5)
    assert batch == source.draw(name, 20, 7, 0.5)
    assert batch != source.draw(name, 20, 8, 0.5)
    assert len(batch.plans) == len({plan.id for plan in batch.plans}) == 20
    assert source.about


@pytest.mark.parametrize("name", list(sources()))
def test_every_action_fits_its_usual_cluster(name: str) -> None:
    source = find(name)
    capacity = source.cluster(source.batch).capacity()
    for plan in source.draw(name, 40, 1, 1.0).plans:
        for turn in plan.turns:
            assert all(work.sizes[0] <= capacity[work.key] for work in turn.actions)


def test_coding_follows_its_lognormals() -> None:
    variant = coding.parameters().variants["coding"]
    batch = coding.draw("coding", 1600, 3, 1.0)
    tools = works(batch, "tool")
    assert median(work.durations[0] for work in tools) == pytest.approx(1000 * math.exp(variant.tool[0]), rel=0.05)
    gaps = [turn.gap for plan in batch.plans for turn in plan.turns]
    assert median(gaps) == pytest.approx(1000 * math.exp(variant.gap[0]), rel=0.1)
    # A hundred prompts only, and turns differ mostly between prompts.
    assert median(len(plan.turns) - 1 for plan in batch.plans) == pytest.approx(math.exp(variant.turns[0]), rel=0.2)
    assert all(plan.turns[-1].actions[0].task == "reward" for plan in batch.plans)
    assert {work.sizes for work in works(batch, "reward")} == {variant.sizes}


def test_rewards_of_a_group_are_alike() -> None:
    batch = coding.draw("coding", 1600, 3, 1.0)
    weights = [math.log(plan.turns[-1].actions[0].durations[0]) for plan in batch.plans]
    groups = [weights[start : start + 16] for start in range(0, 1600, 16)]
    within = fmean((weight - fmean(group)) ** 2 for group in groups for weight in group)
    total = fmean((weight - fmean(weights)) ** 2 for weight in weights)
    assert within < 0.2 * total


def test_the_malleable_share_changes_nothing_else() -> None:
    whole, half, none = (coding.draw("coding", 320, 3, share) for share in (1.0, 0.5, 0.0))
    assert all(work.malleable for work in works(whole, "reward"))
    assert not any(work.malleable for work in works(none, "reward"))
    assert fmean(work.malleable for work in works(half, "reward")) == pytest.approx(0.5, abs=0.1)
    assert [work.durations for work in works(half, "reward")] == [work.durations for work in works(none, "reward")]


def test_amdahl_by_hand() -> None:
    # 10 core-seconds, half of them serial: 5 + 5 / m.
    assert amdahl(10_000, 0.5, (1, 2, 4)) == (10_000, 7_500, 6_250)
    assert amdahl(0.1, 0.0, (1, 8)) == (1, 1)


def test_mopd_asks_popular_services_most_and_halves_nothing_below_the_minimum() -> None:
    tables = mopd.parameters()
    scores = works(mopd.draw("mopd", 4000, 2, 1.0), "score")
    counts = [sum(work.service == f"teacher-{place + 1}" for work in scores) for place in range(len(tables.minimum))]
    assert counts[0] / counts[3] == pytest.approx(4**tables.popularity_zipf, rel=0.2)
    for work in scores:
        minimum = tables.minimum[int((work.service or "").removeprefix("teacher-")) - 1]
        assert work.sizes[0] == minimum
        assert work.sizes[-1] == tables.largest
        assert work.durations[0] / work.durations[1] == pytest.approx(tables.speed_per_doubling, rel=0.1)


def test_deepsearch_calls_then_judges() -> None:
    tables = deepsearch.parameters()
    batch = deepsearch.draw("deepsearch", 800, 2, 1.0)
    fewest, most = tables.calls_range
    for plan in batch.plans:
        keys = [turn.actions[0].key for turn in plan.turns]
        assert keys == ["api:search"] * (len(keys) - 1) + ["gpu"]
        assert fewest <= len(keys) - 1 <= most
    latencies = [work.durations[0] for work in works(batch, "search")]
    assert median(latencies) == pytest.approx(1000 * math.exp(tables.latency[0]), rel=0.05)


def test_swe_is_elastic_only_where_tests_were_seen_in_parallel() -> None:
    batch = swe.draw("swe", 384, 4, 1.0)
    elastic = [work for plan in batch.plans for turn in plan.turns for work in turn.actions if len(work.sizes) > 1]
    assert {work.task for work in elastic} == {"test"}
    assert 0 < len(elastic) < 0.2 * len(works(batch, "test"))
    # 42 % are serial: no size is more than 1 / 0.42 times as fast.
    assert all(work.durations[0] / work.durations[-1] < 1 / 0.42 for work in elastic)
    assert batch.live == 128


def test_an_unknown_workload_names_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"no workload 'codng': choose coding, .*swe"):
        find("codng")
