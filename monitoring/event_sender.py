"""Turns what the scheduler did into Celery events.

Beside Celery's own there is `tangram-actions`, with the columns of many actions; a Flower without our plug-in ignores
it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from celery.events import EventDispatcher

from monitoring.event_buffer import Burst
from monitoring.words import demand_in_words
from scheduler.envelope import Envelope
from scheduler.facts import Refused

ACTIONS_EVENT = "tangram-actions"


class EventSender:
    """Sends over one connection; closes the dispatcher at the end.

    Args:
        dispatcher: of Celery, buffering the group "task". Its errors are raised: a lost connection is made anew.
    """

    def __init__(self, dispatcher: EventDispatcher) -> None:
        anything: Any = dispatcher  # its stubs lack most of it
        self._dispatcher = anything
        self._dispatcher.buffer_while_offline = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._dispatcher.close()

    def tell_worker(self, subject: str, **fields: Any) -> None:
        """Send `worker-SUBJECT`."""
        self._dispatcher.send(f"worker-{subject}", **fields)

    def send(self, burst: Burst) -> None:
        """Send what happened to actions."""
        for envelope in burst.waiting:
            self._dispatcher.send("task-received", **_received(envelope))
        for refused in burst.over:
            kind, fields = _over(refused)
            self._dispatcher.send(kind, **fields)
        self._dispatcher.flush()
        if burst.columns:
            self._dispatcher.send(ACTIONS_EVENT, rows=burst.columns)


def _received(envelope: Envelope) -> dict[str, Any]:
    headers = envelope.content["headers"]
    return {
        "uuid": envelope.action,
        "name": envelope.task,
        "args": headers.get("argsrepr") or "()",
        "kwargs": f"{headers.get('kwargsrepr') or '{}'} needs {demand_in_words(envelope.header.spec.demand)}",
        "root_id": headers.get("root_id"),
        "parent_id": headers.get("parent_id"),
        "retries": envelope.try_number[0],
        "eta": headers.get("eta"),
        "expires": headers.get("expires"),
    }


def _over(refused: Refused) -> tuple[str, dict[str, Any]]:
    fields: dict[str, Any] = {"uuid": refused.envelope.action, "name": refused.envelope.task}
    if refused.outcome in ("cancelled", "expired"):
        expired = refused.outcome == "expired"
        return "task-revoked", {**fields, "terminated": False, "signum": None, "expired": expired}
    return "task-failed", {**fields, "exception": f"{refused.outcome}({refused.detail!r})", "traceback": ""}
