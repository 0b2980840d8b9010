"""The methods that each kind of engine has unless it is declared otherwise.

vLLM: `/score`, `/rerank`, `/classify` and `/pooling` of a server with `--runner pooling`, and the OpenAI API. SGLang:
`/v1/rerank` of a cross encoder, `/classify` of a server with `--is-embedding`, the OpenAI API and its own `/generate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workers.engines.shape import EngineMethod, Shape
from workers.engines.teacher_calls import sglang_logprob, vllm_logprob


def _rerank(path: str, answer: str) -> Shape:
    body = {"query": "$left", "documents": ["$right"]}
    return Shape(path=path, items="pairs", body=body, answers=answer, each=True)


_CHAT = Shape(
    path="/v1/chat/completions",
    items="chats",
    body={"messages": "$items", "temperature": 0},
    answers="choices.0.message.content",
    each=True,
)

VLLM: Mapping[str, Shape] = {
    "score": Shape(path="/score", items="pairs", body={"text_1": "$left", "text_2": "$right"}, answers="data.*.score"),
    "rerank": _rerank("/rerank", "results.0.relevance_score"),
    "classify": Shape(path="/classify", items="texts", body={"input": "$items"}, answers="data.*.probs"),
    "pooling": Shape(path="/pooling", items="texts", body={"input": "$items"}, answers="data.*.data"),
    "chat": _CHAT,
}

SGLANG: Mapping[str, Shape] = {
    "score": _rerank("/v1/rerank", "0.score"),
    "classify": Shape(path="/classify", items="texts", body={"text": "$items"}, answers="*.embedding"),
    "chat": _CHAT,
}

#: Methods that take more than a shape, by kind of engine.
TEACHERS: Mapping[str, Callable[[str | None], EngineMethod]] = {"vllm": vllm_logprob, "sglang": sglang_logprob}
SHAPES: Mapping[str, Mapping[str, Shape]] = {"vllm": VLLM, "sglang": SGLANG}
