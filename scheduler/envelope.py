"""Celery messages as the scheduler sees them: checked, and copied with a grant in the headers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kombu.transport.virtual.base import Base64
from pydantic import ValidationError

from tangram_tasks.errors import InvalidAction
from tangram_tasks.wire import GRANT_HEADER, HEADER, ActionHeader, GrantHeader


class BadMessage(InvalidAction):
    """A message that no worker must ever see.

    Args:
        message: what is wrong with it.
        action: its task id, if that could be read.
    """

    def __init__(self, message: str, action: str | None = None) -> None:
        super().__init__(message)
        self.action = action


@dataclass(frozen=True, slots=True)
class Envelope:
    """One checked message.

    Args:
        content: the decoded envelope.
        embed: what rides in the body beside the arguments.
        action: task id.
        task: task name.
        try_number: which of its action's messages it is: Celery's retries and replacements so far.
        header: what it asks for.
        grant: set on a copy that kombu sent home.
        eta: wall clock ms before which it must not start.
        expires: wall clock ms after which it must not start.
    """

    content: dict[str, Any]
    embed: dict[str, Any]
    action: str
    task: str
    try_number: tuple[int, int]
    header: ActionHeader
    grant: GrantHeader | None
    eta: int | None
    expires: int | None

    @property
    def context(self) -> dict[str, Any]:
        """What Celery's backend wants to know of a request to store its failure."""
        return {
            **self.content["headers"],
            **self.embed,
            "delivery_info": self.content["properties"].get("delivery_info", {}),
            "reply_to": self.content["properties"].get("reply_to"),
            "correlation_id": self.content["properties"].get("correlation_id"),
        }

    def granted(self, grant: GrantHeader) -> str:
        """Return the copy for the node. Its delivery_info still names the admission queue, so that every retry and
        every restore by kombu comes home; the eta is spent.
        """
        headers = {**self.content["headers"], GRANT_HEADER: grant.model_dump(mode="json"), "eta": None}
        return json.dumps({**self.content, "headers": headers})

    def readmitted(self, attempts: int) -> str:
        """Return the raw message to wait again, with the number of starts so far."""
        header = self.header.model_copy(update={"attempts": attempts})
        headers = {**self.content["headers"], HEADER: header.model_dump(mode="json")}
        headers.pop(GRANT_HEADER, None)
        return json.dumps({**self.content, "headers": headers})


def parse(raw: bytes | str) -> Envelope:
    """Check a raw message. Raises BadMessage saying what is wrong."""
    try:
        content = json.loads(raw)
        headers, properties = content["headers"], content["properties"]
        action = headers["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadMessage("not a Celery message in JSON with headers") from None
    if not (isinstance(headers, dict) and isinstance(properties, dict) and isinstance(action, str) and action):
        raise BadMessage("headers and properties must be objects, its id a text")
    try:
        if content.get("content-type") != "application/json":
            raise BadMessage(f"content type {content.get('content-type')!r}; only JSON is accepted", action)
        embed = _embed(content)
        grant = headers.get(GRANT_HEADER)
        return Envelope(
            content=content,
            embed=embed,
            action=action,
            task=str(headers["task"]),
            try_number=(int(headers.get("retries") or 0), int(headers.get("replaced_task_nesting") or 0)),
            header=ActionHeader.model_validate(headers[HEADER]),
            grant=GrantHeader.model_validate(grant) if grant else None,
            eta=_milliseconds(headers.get("eta")),
            expires=_milliseconds(headers.get("expires")),
        )
    except ValidationError as error:
        rows = "; ".join(f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors()[:3])
        raise BadMessage(f"its tangram header is wrong: {rows}", action) from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        if isinstance(error, BadMessage):
            raise
        raise BadMessage(f"it has no usable {error}", action) from None


def _embed(content: dict[str, Any]) -> dict[str, Any]:
    """Return what rides in the body beside the arguments: callbacks, errbacks, chain, chord."""
    body = content["body"]
    if content["properties"].get("body_encoding") == "base64":
        body = Base64().decode(body)
    args, kwargs, embed = json.loads(body)
    if not (isinstance(args, list) and isinstance(kwargs, dict) and isinstance(embed, dict)):
        raise TypeError("body: it must hold arguments, keyword arguments and what rides beside them")
    return embed


def _milliseconds(moment: str | None) -> int | None:
    if moment is None:
        return None
    parsed = datetime.fromisoformat(moment)
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)
