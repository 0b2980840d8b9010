"""Celery's request, with DONE at the one place that sees every way an action can end."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from celery.exceptions import Ignore
from celery.worker.request import Request

from tangram_tasks.wire import GRANT_HEADER, GrantHeader

logger = logging.getLogger(__name__)


class GrantRefused(Ignore):
    """The grant is gone or another process claimed it: this copy of the message must not run."""


@contextlib.contextmanager
def _housekeeping() -> Iterator[None]:
    """The ledger knows already: that kombu cannot acknowledge on a connection that was lost is no trouble."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # kombu 5.7 raises AttributeError there
        logger.info("not acknowledged to kombu: %s", error)


class ActionRequest(Request):
    """Ends the grant when Celery acknowledges or rejects the message."""

    _refused = False

    def __init__(self, message: Any, *args: Any, **options: Any) -> None:
        super().__init__(message, *args, **options)
        grant = self.request_dict.get(GRANT_HEADER)
        if isinstance(grant, dict):  # a forged one is refused when it is claimed
            app: Any = self.app
            app.runtime.receive(str(grant.get("id")), self)

    @property
    def embed(self) -> dict[str, Any]:
        """What rides in the body beside the arguments: callbacks, errbacks, chain, chord."""
        request: Any = self  # celery-types leaves this out
        _, _, embed = request._payload
        return embed or {}

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Remember a refused grant: it is not ours to end."""
        self._refused = isinstance(exc_info.exception, GrantRefused)
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def acknowledge(self) -> None:
        """End the grant, then acknowledge."""
        if not self.acknowledged:
            self._end_grant(requeue=False)
        with _housekeeping():
            super().acknowledge()

    def reject(self, requeue: bool = False) -> None:
        """End the grant, then drop the message here: a requeue goes through the ledger, not through kombu."""
        if not self.acknowledged:
            self._end_grant(requeue=requeue)
        with _housekeeping():
            super().reject(requeue=False)

    def _end_grant(self, *, requeue: bool) -> None:
        grant = self.request_dict.get(GRANT_HEADER)
        if grant is not None and not self._refused:
            app: Any = self.app
            app.runtime.end(GrantHeader.model_validate(grant), self.id, requeue=requeue)
