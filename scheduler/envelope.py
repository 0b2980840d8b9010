"""Celery messages as the scheduler sees them: checked, and copied with a grant in the headers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from scheduler.celery_message import Headers, Message, Properties
from tangram_tasks.errors import InvalidAction
from tangram_tasks.grants import message_id
from tangram_tasks.verdict import Verdict
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
        properties: those that are passed on.
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
    properties: Properties
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
            "delivery_info": {},
            "reply_to": self.properties.reply_to,
            "correlation_id": self.properties.correlation_id,
        }

    def granted(self, grant: GrantHeader) -> str:
        """Return the copy for the node. Its delivery_info still names the admission queue, so that every retry and
        every restore by kombu comes home; the eta is spent. Tools that show arguments show the grant behind them.
        """
        properties, before = self.properties.addressed(grant.id), self.content["headers"]
        shown = (
            f"{before.get('kwargsrepr') or '{}'} granted {self.header.spec.demand.key}={grant.units} on {grant.node}"
        )
        headers = {**before, GRANT_HEADER: grant.model_dump(mode="json"), "eta": None, "kwargsrepr": shown}
        return json.dumps({**self.content, "headers": headers, "properties": properties})

    @property
    def id(self) -> str:
        """Names this message among those of its action: see `tangram_tasks.grants.message_id`."""
        return message_id(self.content["headers"])

    @property
    def has_listeners(self) -> bool:
        """Whether other tasks hear of its failure: only a worker, who knows them, calls those as Celery promises."""
        return any(self.embed.get(name) for name in ("errbacks", "chain", "chord"))

    def readmitted(self, attempts: int, verdict: Verdict | None = None) -> str:
        """Return the raw message to wait again, with the number of starts so far, or to end with a verdict."""
        return self._anew({"attempts": attempts, "verdict": verdict})

    def tried(self, tries: int, spent: float) -> str:
        """Return the raw message to wait again after its provider refused it, with the tries so far and what they
        took of its timeout, s.
        """
        return self._anew({"tries": tries, "spent": spent})

    def _anew(self, changes: dict[str, Any]) -> str:
        header = self.header.model_copy(update=changes)
        headers = {**self.content["headers"], HEADER: header.model_dump(mode="json")}
        headers.pop(GRANT_HEADER, None)
        return json.dumps({**self.content, "headers": headers})


def id_of(raw: bytes | str) -> str | None:
    """Return the task id of a raw message, or None if it has none that can be read."""
    return _load(raw)[1]


def _load(raw: bytes | str) -> tuple[Any, str | None]:
    try:
        content = json.loads(raw)
        return content, Headers.model_validate({"task": "any", "id": content["headers"]["id"]}).id
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, None


def parse(raw: bytes | str) -> Envelope:
    """Check a raw message. Raises BadMessage saying what is wrong."""
    content, action = _load(raw)
    if action is None:
        raise BadMessage("not a Celery message in JSON with an id in its headers")
    try:
        message = Message.model_validate(content)
        ours = message.headers.model_extra or {}
        grant = ours.get(GRANT_HEADER)
        return Envelope(
            content=content,
            embed=message.embed(),
            properties=message.properties,
            action=action,
            task=message.headers.task,
            try_number=message.headers.try_number,
            header=ActionHeader.model_validate(ours.get(HEADER)),
            grant=GrantHeader.model_validate(grant) if grant else None,
            eta=message.headers.eta_ms,
            expires=message.headers.expires_ms,
        )
    except ValidationError as error:
        rows = "; ".join(f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors()[:3])
        raise BadMessage(f"{error.title}: {rows}", action) from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BadMessage(f"its body is of no use: {error}", action) from None
