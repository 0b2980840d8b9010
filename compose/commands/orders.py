"""What an operator tells a node."""

from __future__ import annotations

from typing import Any

import redis

from compose.broker import check_broker
from compose.state_dir import operator_url
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.keys import Keys
from tangram_tasks.orders import NodeOrder
from tangram_tasks.settings import settings
from tangram_tasks.wire import NodeKind, NodeRecord


def order_node(node: str, order: NodeOrder, kind: NodeKind | None = None) -> None:
    """Send an order; with `kind`, only to such a node.

    Raises:
        ConfigurationError: there is no such node; the message names those there are.
        BrokerUnavailable: the broker does not answer.
    """
    config = settings()
    url, keys = operator_url(config), Keys(config.prefix)
    check_broker(url)
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        row: Any = client.hget(keys.nodes, node)
        if row is None:
            known = ", ".join(sorted(name.decode() for name in client.hkeys(keys.nodes))) or "there are none"
            raise ConfigurationError(f"no node is called {node}: {known}")
        if kind is not None and (found := NodeRecord.model_validate_json(row).kind) != kind:
            raise ConfigurationError(f"{node} is a {found} node: only {kind} nodes have sandboxes")
        client.rpush(keys.orders(node), order.model_dump_json())
