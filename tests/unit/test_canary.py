"""When answers to a canary are right."""

from __future__ import annotations

from typing import Any

import pytest

from workers.canary import Canary


@pytest.mark.parametrize(
    ("expected", "answers", "right"),
    [
        ([1.0], [1.0005], True),
        ([1.0], [1.002], False),
        ([1], [1.0], True),
        ([0.0], [float("nan")], False),
        ([1.0], [], False),
        ([1.0], None, False),
        ([[0.1, 0.9]], [[0.1, 0.9]], True),
        ([[0.1, 0.9]], [[0.9, 0.1]], False),
        (["Paris"], ["Paris"], True),
        (["Paris"], ["paris"], False),
    ],
)
def test_numbers_may_differ_a_little_and_nothing_else(expected: list[Any], answers: Any, right: bool) -> None:
    assert (Canary(payload={}, expected=expected).complaint(answers) == "") is right


def test_a_long_answer_is_cut_in_the_message() -> None:
    message = Canary(payload={}, expected=[1.0]).complaint(["word " * 100])
    assert len(message) < 200
    assert message.startswith("its canary (score) gave ['word word")
