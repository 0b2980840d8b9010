"""What text services are asked with: payloads, checked."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tangram_tasks.errors import InvalidAction

#: Items in one payload: above, an action would hold its device for minutes; split it into several actions.
MAX_ITEMS = 16_384

_Text = Annotated[str, Field(min_length=1)]


class _Payload(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Texts(_Payload):
    texts: Annotated[list[_Text], Field(max_length=MAX_ITEMS)]


class _Pairs(_Payload):
    pairs: Annotated[list[tuple[_Text, _Text]], Field(max_length=MAX_ITEMS)]


class _Answers(_Payload):
    pairs: Annotated[list[tuple[str, _Text]], Field(max_length=MAX_ITEMS)]


class _Turn(_Payload):
    role: _Text
    content: str


class _Chats(_Payload):
    chats: Annotated[list[Annotated[list[_Turn], Field(min_length=1)]], Field(max_length=MAX_ITEMS)]


def texts(method: str, payload: dict[str, Any]) -> list[str]:
    """Return the texts of `{"texts": [...]}`. Raises InvalidAction."""
    return _checked(_Texts, method, payload, '{"texts": [text, ...]}').texts


def pairs(method: str, payload: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the pairs of `{"pairs": [[text, text], ...]}`. Raises InvalidAction."""
    return _checked(_Pairs, method, payload, '{"pairs": [[text, text], ...]}').pairs


def answers(method: str, payload: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the pairs of `{"pairs": [[prompt, answer], ...]}`; a prompt may be empty. Raises InvalidAction."""
    return _checked(_Answers, method, payload, '{"pairs": [[prompt, answer], ...]}').pairs


def chats(method: str, payload: dict[str, Any]) -> list[list[dict[str, str]]]:
    """Return the message lists of `{"chats": [[{"role": ..., "content": ...}, ...], ...]}`. Raises InvalidAction."""
    expected = '{"chats": [[{"role": ..., "content": ...}, ...], ...]}'
    found = _checked(_Chats, method, payload, expected).chats
    return [[turn.model_dump() for turn in chat] for chat in found]


_P = TypeVar("_P", bound=_Payload)


def _checked(kind: type[_P], method: str, payload: dict[str, Any], expected: str) -> _P:
    try:
        return kind.model_validate(payload)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise InvalidAction(f"method {method} expects {expected}; {place or 'payload'}: {first['msg']}") from None
