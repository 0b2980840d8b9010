"""How often reward models were brought onto a device, as the nodes count it: also ahead of need, for no action yet."""

from __future__ import annotations

import time

import redis

from compose.embedded import Stack
from compose.readiness import announced, server_time
from monitoring.status import read_status
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.keys import Keys

#: Seconds for every GPU node's next heartbeat.
_LIMIT = 15.0


def count_page_ins(stack: Stack) -> int:
    """Return the page-ins of all GPU nodes since they started. Raises ConfigurationError if one is silent."""
    keys, nodes = Keys(stack.config.prefix), {node.name for node in stack.config.gpu}
    deadline = time.monotonic() + _LIMIT
    with redis.Redis.from_url(stack.broker_url, socket_timeout=10) as client:
        since = server_time(client)
        while not nodes <= announced(client, keys, since):
            if time.monotonic() > deadline:
                raise ConfigurationError(f"GPU nodes {', '.join(sorted(nodes))} are silent: see the logs of the run")
            time.sleep(0.05)
        status = read_status(client, keys, node_timeout=_LIMIT)
    return sum(int(node.record.stats.get("page_ins", 0)) for node in status.nodes if node.record.node in nodes)
