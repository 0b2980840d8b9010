"""Requests to engines and their answers, as data."""

from __future__ import annotations

from typing import Any

import pytest

from tangram_tasks.errors import InvalidAction, ServiceUnavailable
from workers.engines.presets import SHAPES, TEACHERS
from workers.engines.shape import Shape, checked, extract, method_of

PAIRS = [("a", "b"), ("c", "d")]


def _shape(**fields: Any) -> Shape:
    return Shape(**{"path": "/x", "items": "pairs", "body": {}, "answers": "data.*.score", **fields})


def test_one_request_for_all_items() -> None:
    method = method_of("score", _shape(body={"left": "$left", "right": {"deep": ["$right"]}, "n": 1}), "m")
    assert method.bodies(PAIRS) == [{"model": "m", "left": ["a", "c"], "right": {"deep": [["b", "d"]]}, "n": 1}]


def test_one_request_per_item() -> None:
    method = method_of("score", _shape(each=True, body={"q": "$left", "docs": ["$right"]}, answers="0.score"), None)
    assert method.bodies(PAIRS) == [{"q": "a", "docs": ["b"]}, {"q": "c", "docs": ["d"]}]
    assert method.answers([[{"score": 1.5}], [{"score": 2.5}]], PAIRS) == [1.5, 2.5]


def test_answers_are_put_in_the_order_of_their_index() -> None:
    reply = {"data": [{"index": 1, "score": 0.1}, {"index": 0, "score": 0.2}]}
    assert extract(reply, "data.*.score") == [0.2, 0.1]
    assert extract([[1, 2], [3, 4]], "*.1") == [2, 4]


@pytest.mark.parametrize(("reply", "path"), [({}, "data.*"), ({"data": 7}, "data.*"), ([], "0.x"), ([1], "x")])
def test_a_reply_of_another_shape_raises_what_the_service_expects(reply: Any, path: str) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        extract(reply, path)


@pytest.mark.parametrize("values", [[float("nan")], [[1.0, float("inf")]], [None]])
def test_what_is_no_number_is_no_answer(values: Any) -> None:
    with pytest.raises(ServiceUnavailable, match="service judge computed a value that is not a number"):
        checked("judge", values)


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_presets_check_their_payloads(kind: str) -> None:
    for name, shape in SHAPES[kind].items():
        with pytest.raises(InvalidAction, match=f"method {name} expects"):
            method_of(name, shape, None).items({"wrong": 1})
    with pytest.raises(InvalidAction, match="method logprob expects"):
        TEACHERS[kind](None).items({"pairs": [["prompt", ""]]})


def test_an_answer_without_any_log_probability_is_an_error() -> None:
    reply = {"choices": [{"index": 0, "logprobs": {"tokens": ["a", "!"], "token_logprobs": [None, -1.0]}}]}
    with pytest.raises(ValueError, match="give it a prompt"):
        TEACHERS["vllm"](None).answers([reply], [("", "a")])
