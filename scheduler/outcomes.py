"""Tells callers of actions that will not run, through Celery's result backend."""

from __future__ import annotations

import asyncio
from typing import Any

from celery import states
from celery.app.task import Context

from scheduler.core.events import Reject
from scheduler.envelope import Envelope
from tangram_tasks.app import TangramApp
from tangram_tasks.errors import Infeasible, NoCapacity, QuotaExhausted, SandboxError, TangramError

#: Seconds after which a refused caller may try again.
RETRY_AFTER = 1.0


def error_of(reject: Reject) -> TangramError:
    """Return the error that a caller sees for a decision of the core."""
    if reject.outcome == "no_capacity":
        return NoCapacity(reject.detail, RETRY_AFTER)
    if reject.outcome == "quota_exhausted":
        return QuotaExhausted(reject.detail, RETRY_AFTER)
    if reject.outcome == "infeasible":
        return Infeasible(reject.detail)
    return SandboxError(reject.detail)


class Outcomes:
    """Stores failures; chains, chords and errbacks hear of them too.

    Args:
        app: its backend stores results.
    """

    def __init__(self, app: TangramApp) -> None:
        self._app = app

    async def fail(self, envelope: Envelope, error: TangramError) -> None:
        """Store the error as the action's result."""
        await asyncio.to_thread(self._backend.mark_as_failure, envelope.action, error, request=_request(envelope))

    async def fail_unreadable(self, action: str, error: TangramError) -> None:
        """Store the error for a message of which only the id could be read."""
        await asyncio.to_thread(self._backend.mark_as_failure, action, error)

    async def revoke(self, envelope: Envelope, reason: str) -> None:
        """Store that the action was revoked ("cancelled", "expired")."""
        await asyncio.to_thread(
            self._backend.mark_as_revoked, envelope.action, reason=reason, request=_request(envelope)
        )

    async def finished(self, action: str) -> bool:
        """Whether a final result of this action is stored already."""
        return await asyncio.to_thread(self._backend.get_state, action) in states.READY_STATES

    @property
    def _backend(self) -> Any:
        return self._app.backend


def _request(envelope: Envelope) -> Context:
    return Context({**envelope.context, "id": envelope.action})
