"""Mean log-probabilities of answers from engines that return those of every prompt token.

The engine's tokens are cut where the answer's text begins. A token that spans both belongs to the answer. Tokens that
the engine puts in front (a start token) are skipped; those that do not spell the text are an error, since a mean over
other tokens would look like a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from workers import payloads
from workers.engines.shape import EngineMethod

Pair = tuple[str, str]
#: How engines show a token that is a piece of a character.
_PIECE = "\ufffd"


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
    for pair, choice in zip(pairs, choices, strict=True):
        found = choice["logprobs"]
        rows = list(zip(found["tokens"], found["token_logprobs"], strict=True))
        means.append(_mean(rows[:-1], *pair))  # the last one was generated
    return means


def _generations(replies: Sequence[Any], pairs: Sequence[Pair]) -> list[float]:
    means = []
    for pair, reply in zip(pairs, replies[0], strict=True):
        rows = [(text, logprob) for logprob, _, text in reply["meta_info"]["input_token_logprobs"]]
        means.append(_mean(rows, *pair))
    return means


def _mean(rows: Sequence[tuple[str, float | None]], prompt: str, answer: str) -> float:
    """Average the log-probabilities of the tokens that end within the answer.

    The first token of all has none; it counts only if it is the whole answer, which is then refused.
    """
    ends = _ends([text for text, _ in rows], prompt + answer)
    chosen = [
        logprob for (_, logprob), end in zip(rows, ends, strict=True) if end > len(prompt) and logprob is not None
    ]
    if not chosen:
        raise ValueError("no token of the answer has a log-probability: give it a prompt")
    return sum(chosen) / len(chosen)


def _ends(tokens: Sequence[str], text: str) -> list[int]:
    """Return where each token ends in the text; 0 for those in front. Raises ValueError if they do not spell it.

    Tokens that are pieces of one character end where it does.
    """
    ends: list[int] = []
    at = pieces = 0
    for token in tokens:
        if _PIECE in token:
            pieces += 1
            continue
        found = text.find(token, at, at + pieces + len(token))
        if found < 0 and (at or pieces):
            break
        if found < 0:
            ends.append(0)
            continue
        at = found + len(token)
        ends += [found] * pieces + [at]
        pieces = 0
    ends += [len(text)] * pieces
    if len(ends) < len(tokens) or (at < len(text) and not pieces):
        raise ValueError(f"the engine's tokens do not spell the text: {list(tokens[:8])}")
    return ends
