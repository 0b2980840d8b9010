"""Tells callers of actions that will not run, through Celery's result backend."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from celery import states
from celery.app.task import Context
from redis.exceptions import RedisError

from scheduler.core.events import Reject
from scheduler.envelope import Envelope
from scheduler.leader import LeadLost
from tangram_tasks.app import TangramApp
from tangram_tasks.errors import Infeasible, NoCapacity, QuotaExhausted, SandboxError, TangramError

logger = logging.getLogger(__name__)

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
        epoch: the leader's; one that lost the lead must store nothing.
    """

    def __init__(self, app: TangramApp, epoch: int) -> None:
        self._app = app
        self._epoch = epoch

    async def fail(self, envelope: Envelope, error: TangramError) -> None:
        """Store the error as the action's result."""
        await self._store("mark_as_failure", envelope.action, error, request=_request(envelope))

    async def fail_unreadable(self, action: str, error: TangramError) -> None:
        """Store the error for a message of which only the id could be read."""
        await self._store("mark_as_failure", action, error)

    async def revoke(self, envelope: Envelope, reason: str) -> None:
        """Store that the action was revoked ("cancelled", "expired")."""
        await self._store("mark_as_revoked", envelope.action, reason=reason, request=_request(envelope))

    async def finished(self, action: str) -> bool:
        """Whether a final result of this action is stored already."""
        backend: Any = self._app.backend
        return await asyncio.to_thread(backend.get_state, action) in states.READY_STATES

    async def _store(self, method: str, action: str, *args: Any, **options: Any) -> None:
        """Call the backend. Raises LeadLost; what a caller's broken errback or chain raises is only logged."""
        try:
            await asyncio.to_thread(self._store_now, method, action, *args, **options)
        except (RedisError, OSError, LeadLost):
            raise
        except Exception:
            logger.exception("the outcome of action %s may not have reached everybody", action)

    def _store_now(self, method: str, action: str, *args: Any, **options: Any) -> None:
        answer: Any = self._app.redis.get(self._app.keys.epoch)
        if int(answer or 0) != self._epoch:
            raise LeadLost(f"epoch {self._epoch} is over")
        getattr(self._app.backend, method)(action, *args, **options)


def _request(envelope: Envelope) -> Context:
    return Context({**envelope.context, "id": envelope.action})
