"""Learned durations."""

from __future__ import annotations

import json

import pytest

from scheduler.core.estimates import PRIOR, Estimates

SIZES = (1, 2, 4)
DECLARED = (1000, 500, 250)


def test_without_observations_the_declaration_counts() -> None:
    estimates = Estimates()
    assert estimates.durations("t", "b", SIZES, DECLARED) == DECLARED
    assert estimates.confidence("t", "b") == 0


def test_a_wrong_hint_heals_at_all_sizes() -> None:
    estimates = Estimates()
    for _ in range(200):
        estimates.observe("t", "", 1, 10_000)
    slow = estimates.durations("t", "", SIZES, DECLARED)
    assert slow[0] == pytest.approx(10_000, rel=0.05)
    assert slow[1] == pytest.approx(5000, rel=0.05), "the scale carries over to a size that was never seen"
    assert estimates.confidence("t", "") > 0.95


def test_a_curve_that_scales_worse_than_declared_is_learned() -> None:
    estimates = Estimates()
    for _ in range(300):
        estimates.observe("t", "", 1, 1000)
        estimates.observe("t", "", 4, 800)
    learned = estimates.durations("t", "", SIZES, DECLARED)
    assert learned[0] == pytest.approx(1000, rel=0.05)
    assert learned[2] == pytest.approx(800, rel=0.05)


def test_the_arithmetic_mean_is_kept() -> None:
    estimates = Estimates()
    for took in [100] * 900 + [10_000] * 100:
        estimates.observe("t", "", 1, took)
    assert estimates.durations("t", "", (1,), (1000,))[0] == pytest.approx(1090, rel=0.02)


def test_a_bucket_starts_from_its_task_and_then_goes_its_own_way() -> None:
    estimates = Estimates()
    for _ in range(100):
        estimates.observe("t", "slow", 1, 9000)
        estimates.observe("t", "fast", 1, 1000)
    assert estimates.durations("t", "new", (1,), (1000,))[0] == pytest.approx(5000, rel=0.05)
    assert estimates.durations("t", "slow", (1,), (1000,))[0] == pytest.approx(9000, rel=0.05)
    assert estimates.durations("t", "fast", (1,), (1000,))[0] == pytest.approx(1000, rel=0.15)


def test_one_observation_does_not_overturn_a_declaration() -> None:
    estimates = Estimates()
    estimates.observe("t", "", 1, 100_000)
    assert estimates.confidence("t", "") == 1 / (1 + PRIOR)
    assert estimates.durations("t", "", (1,), (1000,))[0] < 50_000


def test_durations_never_rise_with_units() -> None:
    estimates = Estimates()
    for _ in range(50):
        estimates.observe("t", "", 4, 3000)
        estimates.observe("t", "", 1, 1000)
    first, second, third = estimates.durations("t", "", SIZES, DECLARED)
    assert first >= second >= third >= 1


def test_they_survive_json() -> None:
    estimates, again = Estimates(), Estimates()
    changed = estimates.observe("t", "b", 2, 700)
    assert set(changed) == {("t", ""), ("t", "b")}
    for kind in changed:
        again.restore(kind, json.loads(json.dumps(estimates.row(kind))))
        assert again.row(kind) == estimates.row(kind) == {"2": [1, 700]}
    assert again.durations("t", "b", SIZES, DECLARED) == estimates.durations("t", "b", SIZES, DECLARED)


def test_the_kind_used_longest_ago_is_forgotten_and_its_task_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.core.estimates.KINDS", 3)
    estimates = Estimates()
    estimates.observe("t", "a", 1, 10)
    estimates.observe("t", "b", 1, 10)
    assert estimates.observe("t", "c", 1, 10) == [("t", "c"), ("t", ""), ("t", "a")]
    assert estimates.row(("t", "a")) is None
    assert estimates.row(("t", "")) == {"1": [3, 30]}


def test_a_change_is_followed_after_many_observations() -> None:
    estimates = Estimates()
    for _ in range(40_000):
        estimates.observe("t", "", 1, 100)
    for _ in range(20_000):
        estimates.observe("t", "", 1, 1000)
    assert estimates.durations("t", "", (1,), (100,))[0] > 800


def test_an_action_that_was_resized_counts_by_what_it_got_done() -> None:
    estimates = Estimates()
    # Half of it at one unit and half at four, by the declared curve: as declared.
    estimates.observe_resized("t", "", [(1, 500), (4, 125)], SIZES, DECLARED)
    assert estimates.row(("t", "")) == {"1": [1, 1000]}
    # Twice as long in all: so is the whole curve, at the size it had longest.
    for _ in range(300):
        estimates.observe_resized("t", "slow", [(1, 500), (4, 375)], SIZES, DECLARED)
    slow = estimates.durations("t", "slow", SIZES, DECLARED)
    assert slow == pytest.approx((2000, 1000, 500), rel=0.05)


@pytest.mark.parametrize("held", [[], [(3, 10)], [(1, 0)]])
def test_impossible_histories_are_refused(held: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="an observation of t needs sizes"):
        Estimates().observe_resized("t", "", held, SIZES, DECLARED)


@pytest.mark.parametrize("row", [{"1": [0, 5]}, {"x": [1, 1]}, {"1": [1]}])
def test_rows_that_are_none_are_refused(row: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- whatever is wrong with it
        Estimates().restore(("t", ""), row)


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (1, -1)])
def test_impossible_observations_are_refused(numbers: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="an observation of t needs positive numbers"):
        Estimates().observe("t", "", *numbers)
