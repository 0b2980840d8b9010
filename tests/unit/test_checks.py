"""The demo's own checks notice what is wrong."""

from __future__ import annotations

import pytest

from compose.demo.api_server import ApiQuota, ApiStats
from compose.demo.checks import check_api, check_batch
from compose.demo.outcome import Batch, Outcome, Ranking, Suite

GOOD = Outcome(
    number=3,
    suites=[Suite(passed=80, failed=11), Suite(passed=91, failed=0)],
    rewards={"minilm": Ranking(right=0.8, wrong=0.1)},
    searches=1,
    steps=9,
)


def problems(**changes: object) -> list[str]:
    return check_batch(Batch(outcomes=[GOOD.model_copy(update=changes)], reports=[], wall_s=1), services=("minilm",))


def test_a_good_batch_passes() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"error": "NodeLost: cpu-1 died"}, "NodeLost"),
        ({"suites": [Suite(passed=80, failed=11)]}, "ran 1 times"),
        ({"suites": [Suite(passed=91, failed=0), Suite(passed=91, failed=0)]}, "no test failed before"),
        ({"suites": [Suite(passed=80, failed=11), Suite(passed=90, failed=1)]}, "1 failed after"),
        ({"suites": [Suite(passed=80, failed=11), Suite(passed=80, failed=0)]}, "80 tests passed"),
        ({"searches": 0}, "no search"),
        ({"rewards": {}}, "minilm gave no reward"),
        ({"rewards": {"minilm": Ranking(right=0.1, wrong=0.8)}}, "ranked wrong"),
    ],
)
def test_each_fault_is_named_with_its_trajectory(changes: dict[str, object], message: str) -> None:
    (problem,) = problems(**changes)
    assert problem.startswith("trajectory 3: ")
    assert message in problem


def test_without_rewards_none_are_missed() -> None:
    outcome = GOOD.model_copy(update={"rewards": {}})
    assert check_batch(Batch(outcomes=[outcome], reports=[], wall_s=1), services=()) == []


def test_the_api_books() -> None:
    quota = ApiQuota(concurrency=2, per_window=4)
    assert check_api(ApiStats(answered=9, most_in_flight=2, most_in_window=4), quota, expected=9) == []
    faults = check_api(ApiStats(answered=9, refused=1, most_in_flight=3, most_in_window=5), quota, expected=10)
    assert len(faults) == 4
