"""Answers of a provider, kept in Redis for a while, by what was asked."""

from __future__ import annotations

import hashlib
import json
import logging
from typing import Any

import httpx
import redis
from redis.exceptions import RedisError

from tangram_tasks.keys import Keys

logger = logging.getLogger(__name__)

#: A larger answer is not kept, bytes.
LARGEST = 256 * 1024
#: Answers of one provider, at most.
PLACES = 4096


class ApiCache:
    """The answers of one provider.

    What was answered is kept, and a hash of what was asked; never the key that it was asked with. There are so many
    places; a request's hash says which one is its own, and a newer answer takes the place of an older one.

    Args:
        client: the deployment's Redis.
        keys: names.
        provider: its name.
        ttl: seconds.
    """

    def __init__(self, client: redis.Redis, keys: Keys, provider: str, ttl: float) -> None:
        self._client = client
        self._keys = keys
        self._provider = provider
        self._ttl = ttl

    def find(self, method: str, path: str, options: dict[str, Any]) -> httpx.Response | None:
        """Return the answer to an equal request, if it is known. A broker that does not answer knows none."""
        asked = _hash(method, path, options)
        try:
            row: Any = self._client.get(self._place(asked))
        except (RedisError, OSError) as error:
            logger.warning("the cache of %s does not answer: %s", self._provider, error)
            return None
        kept = json.loads(row) if row is not None else {}
        if kept.get("asked") != asked:
            return None
        return httpx.Response(kept["status"], headers=kept["headers"], text=kept["text"])

    def keep(self, method: str, path: str, options: dict[str, Any], answer: httpx.Response) -> None:
        """Keep an answer that went well and is not too large."""
        if not answer.is_success or len(answer.content) > LARGEST:
            return
        kind = {name: value for name, value in answer.headers.items() if name == "content-type"}
        asked = _hash(method, path, options)
        row = json.dumps({"asked": asked, "status": answer.status_code, "headers": kind, "text": answer.text})
        try:
            self._client.set(self._place(asked), row, px=max(1, round(self._ttl * 1000)))
        except (RedisError, OSError) as error:
            logger.warning("the cache of %s does not answer: %s", self._provider, error)

    def _place(self, asked: str) -> str:
        return self._keys.cached(self._provider, int(asked[:8], 16) % PLACES)


def _hash(method: str, path: str, options: dict[str, Any]) -> str:
    asked = json.dumps([method, path, options], sort_keys=True, default=repr)
    return hashlib.sha256(asked.encode()).hexdigest()
