"""What an operator tells a node."""

from __future__ import annotations

import redis

from compose.broker import check_broker
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.keys import Keys
from tangram_tasks.settings import broker_url, settings
from tangram_tasks.wire import NodeOrder


def order_node(node: str, order: NodeOrder) -> None:
    """Send an order. Raises ConfigurationError naming the nodes there are, BrokerUnavailable."""
    config = settings()
    url, keys = broker_url(config), Keys(config.prefix)
    check_broker(url)
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        if not client.hexists(keys.nodes, node):
            known = ", ".join(sorted(name.decode() for name in client.hkeys(keys.nodes))) or "there are none"
            raise ConfigurationError(f"no node is called {node}: {known}")
        client.rpush(keys.orders(node), order.model_dump_json())
