"""What a request to an engine looks like, and where in its answer the values are: data, so that users can add some."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tangram_tasks.errors import ServiceUnavailable
from workers import payloads

ItemKind = Literal["pairs", "answers", "texts", "chats"]

_ITEMS: Mapping[str, Callable[[str, dict[str, Any]], Sequence[Any]]] = {
    "pairs": payloads.pairs,
    "answers": payloads.answers,
    "texts": payloads.texts,
    "chats": payloads.chats,
}


class Shape(BaseModel):
    """One kind of request.

    Args:
        path: below the engine's address.
        items: what the payload holds: "pairs", "answers" (pairs whose prompt may be empty), "texts" or "chats".
        body: sent as JSON. In it "$items" stands for all items of the request, "$left" and "$right" for the first and
            second texts of pairs.
        answers: where the values are, in steps separated by dots: a key, an index, or "*" for each element (in order
            of their "index", if they have one).
        each: one request per item, sent at once; "$items", "$left" and "$right" then stand for that item's, and
            `answers` leads to one value.
        batch: items per run at most.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(pattern=r"^/[^?#]*$")
    items: ItemKind
    body: dict[str, Any]
    answers: str = Field(min_length=1)
    each: bool = False
    batch: int = Field(default=32, ge=1, le=4096)


@dataclass(frozen=True, slots=True)
class EngineMethod:
    """A method of an engine's service; implements `workers.service.Method`.

    Args:
        path: where its requests go.
        items: see `workers.service.Method`.
        bodies: the requests for a batch of items.
        answers: the answers to them, as one value per item. Raises LookupError, TypeError or ValueError.
        batch: items per run at most.
    """

    path: str
    items: Callable[[dict[str, Any]], Sequence[Any]]
    bodies: Callable[[Sequence[Any]], list[dict[str, Any]]]
    answers: Callable[[Sequence[Any], Sequence[Any]], list[Any]]
    batch: int = 32


def method_of(name: str, shape: Shape, model: str | None) -> EngineMethod:
    """Return the method that a shape describes; `model` is added to its requests."""
    common = {} if model is None else {"model": model}

    def items(payload: dict[str, Any]) -> Sequence[Any]:
        return _ITEMS[shape.items](name, payload)

    def bodies(batch: Sequence[Any]) -> list[dict[str, Any]]:
        if shape.each:
            return [{**common, **_filled(shape.body, item, *_sides([item], one=True))} for item in batch]
        return [{**common, **_filled(shape.body, list(batch), *_sides(batch))}]

    def answers(replies: Sequence[Any], batch: Sequence[Any]) -> list[Any]:
        found = [extract(reply, shape.answers) for reply in replies]
        values = found if shape.each else found[0]
        if not isinstance(values, list):
            raise TypeError(f"{shape.answers} is no list")
        return values

    return EngineMethod(shape.path, items, bodies, answers, shape.batch)


def extract(reply: Any, path: str) -> Any:
    """Return what a path leads to. Raises LookupError, TypeError or ValueError."""
    step, _, rest = path.partition(".")
    if step == "*":
        rows = list(reply)
        if rows and all(isinstance(row, dict) and "index" in row for row in rows):
            rows.sort(key=lambda row: row["index"])
        return [extract(row, rest) if rest else row for row in rows]
    found = reply[int(step)] if isinstance(reply, list) else reply[step]
    return extract(found, rest) if rest else found


def checked(service: str, values: Any) -> Any:
    """Return the values. Raises ServiceUnavailable if a number among them is not finite: that is not a reward."""
    if isinstance(values, list):
        return [checked(service, value) for value in values]
    if values is None or (isinstance(values, float) and not math.isfinite(values)):
        raise ServiceUnavailable(f"service {service} computed a value that is not a number")
    return values


def _sides(batch: Sequence[Any], *, one: bool = False) -> tuple[Any, Any]:
    if not batch or not isinstance(batch[0], tuple):
        return None, None
    left, right = ([pair[side] for pair in batch] for side in (0, 1))
    return (left[0], right[0]) if one else (left, right)


def _filled(template: Any, items: Any, left: Any, right: Any) -> Any:
    if isinstance(template, dict):
        return {key: _filled(value, items, left, right) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, items, left, right) for value in template]
    known = {"$items": items, "$left": left, "$right": right}
    return known.get(template, template) if isinstance(template, str) else template
