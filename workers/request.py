"""Celery's request, with DONE at the one place that sees every way an action can end."""

from __future__ import annotations

from typing import Any

from celery.exceptions import Ignore
from celery.worker.request import Request

from tangram_tasks.wire import GRANT_HEADER, GrantHeader


class GrantRefused(Ignore):
    """The grant is gone or another process claimed it: this copy of the message must not run."""


class ActionRequest(Request):
    """Ends the grant when Celery acknowledges or rejects the message."""

    _refused = False

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Remember a refused grant: it is not ours to end."""
        self._refused = isinstance(exc_info.exception, GrantRefused)
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def acknowledge(self) -> None:
        """End the grant, then acknowledge."""
        if not self.acknowledged:
            self._end_grant(requeue=False)
        super().acknowledge()

    def reject(self, requeue: bool = False) -> None:
        """End the grant, then drop the message here: a requeue goes through the ledger, not through kombu."""
        if not self.acknowledged:
            self._end_grant(requeue=requeue)
        super().reject(requeue=False)

    def _end_grant(self, *, requeue: bool) -> None:
        grant = self.request_dict.get(GRANT_HEADER)
        if grant is not None and not self._refused:
            app: Any = self.app
            app.runtime.end(GrantHeader.model_validate(grant), self.id, requeue=requeue)
