"""The workload generator against the table it draws from."""

from __future__ import annotations

from collections import defaultdict

import pytest

from compose.simulate.workloads.sessions import Generator, Turn, parameters, quantile

TRAJECTORIES = 3000


@pytest.fixture(scope="module")
def drawn() -> list[tuple[Turn, ...]]:
    generator = Generator(seed=7)
    return [generator.trajectory() for _ in range(TRAJECTORIES)]


def level(values: list[float], at: float) -> float:
    return sorted(values)[int(at * len(values))]


@pytest.mark.parametrize("at", [0.5, 0.9])
def test_durations_follow_the_table(drawn: list[tuple[Turn, ...]], at: float) -> None:
    durations: dict[str, list[float]] = defaultdict(list)
    for trajectory in drawn:
        for turn in trajectory:
            durations[turn.kind] += [call.duration for call in turn.calls]
    tables = parameters()
    for kind in tables.kinds:
        expected = quantile(tables.q, tables.dur_s[kind], at)
        assert level(durations[kind], at) == pytest.approx(expected, rel=0.15), kind


@pytest.mark.parametrize("at", [0.5, 0.9])
def test_gaps_and_turns_follow_the_table(drawn: list[tuple[Turn, ...]], at: float) -> None:
    tables = parameters()
    gaps = [turn.gap for trajectory in drawn for turn in trajectory[1:]]
    assert level(gaps, at) == pytest.approx(quantile(tables.q, tables.gap_s, at), rel=0.15)
    turns = [float(len(trajectory)) for trajectory in drawn]
    assert level(turns, at) == pytest.approx(quantile(tables.q, tables.turns, at), rel=0.15)


def test_the_mix_of_kinds_is_that_of_the_source(drawn: list[tuple[Turn, ...]]) -> None:
    calls = [turn.kind for trajectory in drawn for turn in trajectory for _ in turn.calls]
    # Shares of calls in the source: file 50 %, shell 22, test 14, python 10, install 3.4, web 0.8.
    for kind, share in {"file": 0.50, "shell": 0.22, "test": 0.14, "python": 0.10, "install": 0.034}.items():
        assert calls.count(kind) / len(calls) == pytest.approx(share, abs=0.03), kind  # type: ignore[arg-type]  # a literal


def test_calls_of_one_trajectory_have_a_common_tendency(drawn: list[tuple[Turn, ...]]) -> None:
    median = quantile(parameters().q, parameters().dur_s["python"], 0.5)
    pairs = []
    for trajectory in drawn:
        slow = [call.duration > median for turn in trajectory if turn.kind == "python" for call in turn.calls]
        if len(slow) >= 2:
            pairs.append(slow[0] == slow[1])
    # Orthant probability of a Gaussian copula with rho 0.39: 1/2 + asin(rho)/pi = 0.63; independent calls give 0.5.
    assert sum(pairs) / len(pairs) == pytest.approx(0.63, abs=0.05)


def test_only_tests_have_a_parallel_phase_and_then_use_more_cores(drawn: list[tuple[Turn, ...]]) -> None:
    peaks = [(turn.kind, call) for trajectory in drawn for turn in trajectory for call in turn.calls if call.peak]
    assert peaks
    assert {kind for kind, _ in peaks} == {"test"}
    assert all(call.cores >= 1.5 and call.duration >= 1 for _, call in peaks)


def test_the_same_seed_draws_the_same() -> None:
    assert Generator(3).trajectory() == Generator(3).trajectory()
    assert Generator(3).trajectory() != Generator(4).trajectory()


def test_quantile_is_exact_at_its_levels_and_log_linear_between() -> None:
    levels, values = (0.0, 0.5, 1.0), (1.0, 10.0, 1000.0)
    assert [quantile(levels, values, u) for u in levels] == pytest.approx(values)
    assert quantile(levels, values, 0.75) == pytest.approx(100.0)


def test_the_parameters_name_source_and_licence() -> None:
    assert "AgentCgroup" in parameters().about
    assert "GPL-2.0" in parameters().licence
