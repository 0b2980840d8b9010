"""Questions to the scheduler, and its answers."""

from __future__ import annotations

from uuid import uuid4

from redis import Redis

from tangram_tasks.control import stream_entry
from tangram_tasks.errors import ServiceUnavailable
from tangram_tasks.keys import Keys
from tangram_tasks.wire import ActionExplained, ExplainAction


def explain(client: Redis, keys: Keys, action: str, *, timeout: float = 5.0) -> ActionExplained:
    """Ask where an action is and why it waits.

    Args:
        client: connection to the broker; its socket timeout must be longer than `timeout`.
        keys: names in Redis.
        action: its id.
        timeout: seconds to wait for the answer.

    Raises:
        ServiceUnavailable: no scheduler answers in time.
        redis.RedisError: the broker does not answer.
    """
    question = uuid4().hex
    client.xadd(keys.control, stream_entry(ExplainAction(action=action, question=question)))
    answered = client.blpop([keys.answer(question)], timeout=timeout)
    if answered is None:
        raise ServiceUnavailable(
            f"no scheduler answers within {timeout:g} s: does `tangram status` show one that leads?"
        )
    return ActionExplained.model_validate_json(answered[1])
