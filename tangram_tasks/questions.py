"""Questions to the scheduler, and its answers."""

from __future__ import annotations

from typing import Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict
from redis import Redis

from tangram_tasks.control import stream_entry
from tangram_tasks.control_messages import ExplainAction
from tangram_tasks.errors import ServiceUnavailable
from tangram_tasks.keys import Keys


class ActionExplained(BaseModel):
    """Scheduler to client: where an action is.

    Args:
        action: its id.
        state: it waits in a queue or for its sandbox, waits for its eta, holds a grant, or is not known (any more).
        reason: in words.
        place: the node or "api:NAME" where it queues or runs.
        position: its place in that queue; 1 is next.
        units: of its key resource, if it holds a grant.
        demand: the least it needs.
        free: what nobody holds, by place where it could run.
        passed_over: decisions that left it waiting although it fitted.
        start_s: seconds until it is expected to start, if nobody else comes.
        act_s: its expected ACT in seconds.
        confidence: how much of the durations behind that is observed and not declared, 0 to 1.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    action: str
    state: Literal["waiting", "eta", "granted", "unknown"]
    reason: str
    place: str | None = None
    position: int | None = None
    units: int | None = None
    demand: dict[str, int] = {}
    free: dict[str, dict[str, int]] = {}
    passed_over: int = 0
    start_s: float | None = None
    act_s: float | None = None
    confidence: float = 0.0


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
