"""Mean log-probabilities of answers from engines that return those of every prompt token.

The engine's tokens are cut where the answer's text begins. A token that spans both belongs to the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from workers import payloads
from workers.engines.shape import EngineMethod

Pair = tuple[str, str]


def vllm_logprob(model: str | None) -> EngineMethod:
    """Return the method `logprob` over `/v1/completions`: the prompt is echoed with its log-probabilities."""

    def bodies(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
        texts = [prompt + answer for prompt, answer in pairs]
        body = {"prompt": texts, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 0}
        return [body if model is None else {"model": model, **body}]

    return EngineMethod("/v1/completions", partial(payloads.answers, "logprob"), bodies, _completions)


def sglang_logprob(model: str | None) -> EngineMethod:
    """Return the method `logprob` over `/generate`; the server's model needs no name."""

    def bodies(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
        return [
            {
                "text": [prompt + answer for prompt, answer in pairs],
                "sampling_params": {"max_new_tokens": 1, "temperature": 0},
                "return_logprob": True,
                "logprob_start_len": 0,
                "return_text_in_logprobs": True,
            }
        ]

    return EngineMethod("/generate", partial(payloads.answers, "logprob"), bodies, _generations)


def _completions(replies: Sequence[Any], pairs: Sequence[Pair]) -> list[float]:
    choices = sorted(replies[0]["choices"], key=lambda choice: choice["index"])
    means = []
    for (prompt, answer), choice in zip(pairs, choices, strict=True):
        found = choice["logprobs"]
        rows = zip(found["tokens"], found["token_logprobs"], strict=True)
        means.append(_mean(rows, len(prompt), len(prompt) + len(answer)))
    return means


def _generations(replies: Sequence[Any], pairs: Sequence[Pair]) -> list[float]:
    means = []
    for (prompt, answer), reply in zip(pairs, replies[0], strict=True):
        rows = ((text, logprob) for logprob, _, text in reply["meta_info"]["input_token_logprobs"])
        means.append(_mean(rows, len(prompt), len(prompt) + len(answer)))
    return means


def _mean(rows: Iterable[tuple[str, float | None]], start: int, stop: int) -> float:
    """Average the log-probabilities of the tokens whose text ends within (start, stop].

    The first token of all has none; it counts only if it is the whole answer, which is then refused.
    """
    end, chosen = 0, []
    for text, logprob in rows:
        end += len(text)
        if start < end <= stop and logprob is not None:
            chosen.append(logprob)
    if not chosen:
        raise ValueError("no token of the answer has a log-probability: give it a prompt")
    return sum(chosen) / len(chosen)
