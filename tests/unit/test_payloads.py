"""Payloads of text services."""

from __future__ import annotations

from typing import Any

import pytest

from tangram_tasks.errors import InvalidAction
from workers import payloads


def test_good_payloads_come_back_as_items() -> None:
    assert payloads.texts("embed", {"texts": ["a", "b"]}) == ["a", "b"]
    assert payloads.pairs("score", {"pairs": [["a", "b"]]}) == [("a", "b")]
    assert payloads.answers("logprob", {"pairs": [["", "b"]]}) == [("", "b")]
    assert payloads.pairs("score", {"pairs": []}) == []


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        ({}, "pairs"),
        ({"pairs": "text"}, "pairs"),
        ({"pairs": [["a"]]}, "pairs.0"),
        ({"pairs": [["a", "b"], ["a", 3]]}, "pairs.1.1"),
        ({"pairs": [["a", ""]]}, "pairs.0.1"),
        ({"pairs": [["a", "b"]], "temperature": 1}, "temperature"),
    ],
)
def test_a_bad_payload_names_the_method_what_it_expects_and_the_place(payload: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidAction) as refused:
        payloads.pairs("score", payload)
    assert "method score expects" in str(refused.value)
    assert '"pairs": [[text, text], ...]' in str(refused.value)
    assert f"; {place}" in str(refused.value)


def test_too_many_items_are_refused() -> None:
    with pytest.raises(InvalidAction, match="texts"):
        payloads.texts("embed", {"texts": ["a"] * (payloads.MAX_ITEMS + 1)})
