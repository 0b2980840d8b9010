"""What an API node tells the scheduler beside the ends of its actions."""

from __future__ import annotations

import logging

import redis
from redis.exceptions import RedisError

from tangram_tasks.keys import Keys
from tangram_tasks.wire import NodeEvent

logger = logging.getLogger(__name__)


class ApiVoice:
    """Speaks for one node. What the broker does not take is lost: the next complaint, or DONE, says it again.

    Args:
        client: the deployment's Redis.
        keys: names.
    """

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def tell(self, event: NodeEvent) -> None:
        """Tell the scheduler."""
        try:
            self._client.xadd(self._keys.events, {"m": event.model_dump_json()})
        except (RedisError, OSError) as error:
            logger.warning("the scheduler was not told: %s", error)
