"""Handles one item so that it cannot stop the scheduler: what goes wrong is logged, and the item is skipped."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from redis.exceptions import RedisError

from scheduler.leader import LeadLost

logger = logging.getLogger(__name__)


async def handled(what: object, work: Awaitable[object]) -> bool:
    """Await the work; False, and a line in the log, if that was not possible.

    Args:
        what: names the item in the log.
        work: what is to be done about it.

    Raises:
        RedisError: the broker does not answer.
        OSError: the same.
        LeadLost: another scheduler leads.
    """
    try:
        await work
    except (RedisError, OSError, LeadLost):
        raise
    except Exception:
        logger.exception("%s could not be handled and is skipped", what)
        return False
    return True
