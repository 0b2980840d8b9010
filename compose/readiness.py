"""Waiting until a stack's children have announced themselves in Redis."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from pydantic import ValidationError

from compose.supervisor import Supervisor, describe_exit
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.keys import Keys
from tangram_tasks.wire import NodeRecord

if TYPE_CHECKING:
    from redis import Redis

_POLL = 0.05  # seconds
_PATIENCE = 3  # restarts after which a child that never announced itself will not


def server_time(client: Redis) -> float:
    """Return the Redis server's wall clock in seconds."""
    seconds, microseconds = client.time()
    return float(seconds) + float(microseconds) / 1e6


def announced(client: Redis, keys: Keys, since: float) -> set[str]:
    """Return the nodes whose last heartbeat is not older than `since` (server clock, seconds)."""
    records: dict[bytes, bytes] = client.hgetall(keys.nodes)  # type: ignore[assignment]  # as above
    alive = set()
    for raw in records.values():
        try:
            record = NodeRecord.model_validate_json(raw)
        except ValidationError:  # another version's: not one of the nodes that we started
            continue
        if record.beat >= since:
            alive.add(record.node)
    return alive


def wait_until_ready(
    client: Redis, keys: Keys, supervisor: Supervisor, nodes: Collection[str], *, since: float, limit: float
) -> None:
    """Wait until the scheduler leads and every node is announced.

    Args:
        client: connection to the broker.
        keys: names in Redis.
        supervisor: has one child per node, of the node's name, and one named "scheduler".
        nodes: the nodes to wait for.
        since: the Redis server's time at which they were started.
        limit: seconds to wait.

    Raises:
        ConfigurationError: one did not come up; the message ends with its log.
    """
    deadline = time.monotonic() + limit
    while True:
        missing = [name for name in nodes if name not in announced(client, keys, since)]
        if not client.exists(keys.leader):
            missing.insert(0, "scheduler")
        if not missing:
            return
        status = supervisor.status()
        for name in missing:
            if status[name].restarts >= _PATIENCE:
                reason = f"ended {status[name].restarts} times, last with {describe_exit(status[name].exit_code)}"
                raise ConfigurationError(_failure(supervisor, name, reason))
        if time.monotonic() > deadline:
            raise ConfigurationError(_failure(supervisor, missing[0], f"was not ready within {limit:g} s"))
        time.sleep(_POLL)


def _failure(supervisor: Supervisor, name: str, reason: str) -> str:
    return f"{name} {reason}; its log {supervisor.log(name)} ends:\n{supervisor.tail(name)}"
