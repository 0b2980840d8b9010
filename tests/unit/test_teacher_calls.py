"""Which tokens of an engine's answer are those of the text that was asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from workers.engines.teacher_calls import sglang_logprob, vllm_logprob

KINDS = pytest.mark.parametrize("kind", ["vllm", "sglang"])


def _logprob(kind: str, prompt: str, answer: str, tokens: Sequence[str]) -> float:
    """Ask about one pair; each token's log-probability is minus its place, and the first one has none."""
    logprobs = [None, *(-float(at) for at in range(1, len(tokens)))]
    reply: Any
    if kind == "vllm":  # it echoes the prompt, and adds the token that it generated
        generated = {"tokens": [*tokens, "!"], "token_logprobs": [*logprobs, -99.0]}
        reply, method = {"choices": [{"index": 0, "logprobs": generated}]}, vllm_logprob("m")
    else:
        rows = [[logprob, 7, token] for logprob, token in zip(logprobs, tokens, strict=True)]
        reply, method = [{"meta_info": {"input_token_logprobs": rows}}], sglang_logprob(None)
    (value,) = method.answers([reply], [(prompt, answer)])
    return float(value)


@KINDS
def test_the_answers_tokens_are_averaged(kind: str) -> None:
    assert _logprob(kind, "the cat", " sat down", ["the", " cat", " sat", " down"]) == -2.5


@KINDS
def test_a_start_token_is_no_part_of_the_text(kind: str) -> None:
    assert _logprob(kind, "the cat", " sat down", ["<|begin|>", "the", " cat", " sat", " down"]) == -3.5


@KINDS
def test_a_token_of_prompt_and_answer_belongs_to_the_answer(kind: str) -> None:
    assert _logprob(kind, "the c", "at sat", ["the", " cat", " sat"]) == -1.5


@KINDS
@pytest.mark.parametrize(
    ("prompt", "answer", "tokens", "expected"),
    [
        ("é", "at", ["\ufffd", "\ufffd", "a", "t"], -2.5),
        ("é é", "at", ["\ufffd", "\ufffd", " ", "\ufffd", "\ufffd", "a", "t"], -5.5),
        ("so", " \N{GRINNING FACE}", ["so", " ", "\ufffd", "\ufffd", "\ufffd"], -2.5),
    ],
)
def test_a_character_of_several_tokens_ends_with_the_last(
    kind: str, prompt: str, answer: str, tokens: Sequence[str], expected: float
) -> None:
    assert _logprob(kind, prompt, answer, tokens) == expected


@KINDS
@pytest.mark.parametrize("tokens", [["the", "cat", "sat"], ["the", " cat"], ["x", "y"]])
def test_tokens_that_do_not_spell_the_text_are_no_answer(kind: str, tokens: Sequence[str]) -> None:
    with pytest.raises(ValueError, match="do not spell"):
        _logprob(kind, "the cat", " sat", tokens)


@KINDS
def test_an_answer_without_context_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="give it a prompt"):
        _logprob(kind, "", "yes", ["yes"])
