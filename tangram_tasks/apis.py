"""Ready-made API actions: HTTP calls that spend a provider's quota, and OpenAI-compatible chat."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tangram_tasks.context import ApiHandle, current_action
from tangram_tasks.errors import ConfigurationError, ServiceUnavailable
from tangram_tasks.shared import shared_action

#: Characters of English text per token, about; an estimate is corrected by the answer's usage.
CHARACTERS_PER_TOKEN = 4
#: Tokens of an answer whose length is not limited, for the estimate.
USUAL_ANSWER = 256

_JUDGE = (
    "You grade answers. Reply with one JSON object and nothing else:"
    ' {"score": a number from 0 to 1, "reason": one short sentence}.'
)


def current_api() -> ApiHandle:
    """Return the API that the running action was granted. Raises ConfigurationError outside of one."""
    api = current_action().api
    if api is None:
        raise ConfigurationError("this action asked for no API: declare it with api=PROVIDER")
    return api


@shared_action(timeout=60, duration=1.0, api="*", provider_argument="provider")
def http_get(provider: str, path: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """GET `path` of a provider within its quota. Returns status, and json or text.

    Args:
        provider: the provider's name; its address and key are known to the API workers only.
        path: below the provider's base address.
        params: query parameters.
    """
    return _answer(current_api().request("GET", path, params=params))


@shared_action(timeout=60, duration=1.0, api="*", provider_argument="provider")
def http_post(provider: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """POST a JSON body to `path` of a provider within its quota. Returns status, and json or text.

    Args:
        provider: the provider's name; its address and key are known to the API workers only.
        path: below the provider's base address.
        body: sent as JSON.
    """
    return _answer(current_api().request("POST", path, json=body))


def estimate_tokens(arguments: Mapping[str, Any]) -> int:
    """Return about how many tokens a chat or a judgement will use, from its arguments."""
    text = json.dumps([value for name, value in arguments.items() if name not in ("provider", "model")])
    return len(text) // CHARACTERS_PER_TOKEN + int(arguments.get("max_tokens") or USUAL_ANSWER)


@shared_action(
    timeout=300, duration=5.0, api="*", provider_argument="provider", token_estimate=staticmethod(estimate_tokens)
)
def chat(
    provider: str,
    messages: list[dict[str, Any]],
    model: str,
    max_tokens: int | None = None,
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Ask an OpenAI-compatible provider. Returns content, finish_reason, model and usage.

    Args:
        provider: the provider's name; its base address ends before `/chat/completions`.
        messages: each with role and content.
        model: as the provider names it.
        max_tokens: of the answer, at most.
        options: further fields of the request, for example {"temperature": 0}.

    Raises:
        ServiceUnavailable: the answer is no chat completion.
    """
    return _complete(provider, messages, model, max_tokens, options)


@shared_action(
    timeout=300, duration=5.0, api="*", provider_argument="provider", token_estimate=staticmethod(estimate_tokens)
)
def judge(provider: str, question: str, answer: str, model: str, reference: str | None = None) -> dict[str, Any]:
    """Let an OpenAI-compatible model grade an answer. Returns score (0 to 1), reason and usage.

    Args:
        provider: the provider's name.
        question: what was asked.
        answer: what is graded.
        model: as the provider names it.
        reference: a right answer, if there is one.

    Raises:
        ServiceUnavailable: the model did not grade. That is no score of 0.
    """
    parts = [f"Question:\n{question}", f"Answer:\n{answer}"]
    if reference is not None:
        parts.insert(1, f"Right answer:\n{reference}")
    messages = [{"role": "system", "content": _JUDGE}, {"role": "user", "content": "\n\n".join(parts)}]
    reply = _complete(provider, messages, model, USUAL_ANSWER, {"temperature": 0})
    score, reason = _grade(provider, reply["content"])
    return {"score": score, "reason": reason, "usage": reply["usage"]}


def _complete(
    provider: str,
    messages: list[dict[str, Any]],
    model: str,
    max_tokens: int | None,
    options: dict[str, Any] | None,
) -> dict[str, Any]:
    body = {**(options or {}), "model": model, "messages": messages}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    response = current_api().request("POST", "/chat/completions", json=body)
    try:
        reply = response.json()
        choice = reply["choices"][0]
        return {
            "content": choice["message"]["content"],
            "finish_reason": choice.get("finish_reason"),
            "model": reply.get("model", model),
            "usage": reply.get("usage") or {},
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ServiceUnavailable(
            f"{provider} answered {response.status_code}, and that is no chat completion: {response.text[:200]!r}"
        ) from None


def _grade(provider: str, text: str | None) -> tuple[float, str]:
    found = re.search(r"\{.*\}", text or "", re.DOTALL)
    try:
        grade = json.loads(found.group() if found else "")
        score, reason = float(grade["score"]), str(grade.get("reason", ""))
    except (ValueError, LookupError, TypeError, AttributeError):
        score, reason = -1.0, ""
    if not 0 <= score <= 1:
        raise ServiceUnavailable(f"{provider} did not grade: {(text or '')[:200]!r}")
    return score, reason


def _answer(response: Any) -> dict[str, Any]:
    kind = response.headers.get("content-type", "")
    if not kind.startswith("application/json"):
        return {"status": response.status_code, "text": response.text}
    try:
        return {"status": response.status_code, "json": response.json()}
    except ValueError:
        raise ServiceUnavailable(f"the answer says that it is JSON, and is not: {response.text[:200]!r}") from None
