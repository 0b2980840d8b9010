"""Messages that Celery drops before there is a request: their grants end at once, and their callers hear of it."""

from __future__ import annotations

import logging
from typing import Any

from celery.signals import task_rejected, task_unknown
from pydantic import ValidationError

from tangram_tasks.app import TangramApp
from tangram_tasks.errors import InvalidAction
from tangram_tasks.wire import GRANT_HEADER, GrantHeader
from workers.runtime import Runtime

logger = logging.getLogger(__name__)


class Unread:
    """Ends the grants of messages that never became a request.

    Args:
        app: its backend stores failures.
        runtime: ends grants.
    """

    def __init__(self, app: TangramApp, runtime: Runtime) -> None:
        self._app = app
        self._runtime = runtime

    def listen(self) -> None:
        """Hear of them from now on, as long as the process lives."""
        task_unknown.connect(self._unknown, weak=False)
        task_rejected.connect(self._rejected, weak=False)

    def _unknown(self, message: Any, **_: Any) -> None:
        """No task of this name: Celery has stored NotRegistered."""
        found = _grant(message)
        if found is not None:
            self._runtime.end(*found, requeue=False)

    def _rejected(self, message: Any, exc: BaseException | None, **_: Any) -> None:
        """Celery could make no request of it and has told nobody. Its caller first: else it could be in no book."""
        found = _grant(message)
        if found is None:
            return
        grant, action = found
        backend: Any = self._app.backend
        try:
            backend.mark_as_failure(action, InvalidAction(f"action {action}: its worker could not read it: {exc}"))
        except Exception:  # whatever a backend raises: the consumer loop must go on, and the start lease comes
            logger.exception("nobody heard that action %s could not be read", action)
            return
        self._runtime.end(grant, action, requeue=False)


def _grant(message: Any) -> tuple[GrantHeader, str] | None:
    """Return a message's grant and action, or None if it has none."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    try:
        return GrantHeader.model_validate(headers.get(GRANT_HEADER)), str(headers["id"])
    except (ValidationError, KeyError):
        return None
