"""Asks GPU nodes about their services, and waits for the answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import redis

from monitoring.status import NodeStatus
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.keys import Keys
from tangram_tasks.orders import ServiceAnswer, ServiceOrder, ServiceVerb

#: Seconds that an answer may take beyond what the order allows: its way there and back.
_WAY = 5.0


def nodes_with(nodes: Iterable[NodeStatus], *, service: str, node: str = "") -> list[str]:
    """Return the live GPU nodes that hold a service.

    Args:
        nodes: those of the deployment.
        service: its name; "" is any.
        node: only this one; "" is any.

    Raises:
        ConfigurationError: there is no such node, or none holds the service; the message names those there are.
    """
    alive = [one.record for one in nodes if one.alive and one.record.kind == "gpu"]
    asked = [record for record in alive if node in ("", record.node)]
    if not asked:
        known = ", ".join(record.node for record in alive) or "there are none"
        raise ConfigurationError(f"no live GPU node{node and f' is called {node}'}: {known}")
    able = [record.node for record in asked if not service or service in record.services]
    if not able:
        held = ", ".join(sorted({name for record in asked for name in record.services})) or "none"
        raise ConfigurationError(f"no GPU node holds service {service}; the services there are: {held}")
    return able


def ask(
    client: redis.Redis, keys: Keys, nodes: Sequence[str], *, verb: ServiceVerb, service: str, timeout: float
) -> Iterator[ServiceAnswer]:
    """Give every node an order; yield their answers as they come. One that does not answer in time answers that.

    Args:
        client: connection to the broker, with a socket timeout of more than `timeout` and 5 s.
        keys: names in Redis.
        nodes: their names.
        verb: what to do.
        service: with which one.
        timeout: seconds that it may take.
    """
    orders = {node: ServiceOrder(verb=verb, service=service, reply=uuid4().hex, timeout=timeout) for node in nodes}
    for node, order in orders.items():
        client.rpush(keys.orders(node), order.model_dump_json())
    waiting = {keys.answer(order.reply): node for node, order in orders.items()}
    end = time.monotonic() + timeout + _WAY
    while waiting and (left := end - time.monotonic()) > 0:  # for all at once: an answer does not wait for another
        found: Any = client.blpop(list(waiting), timeout=left)
        if found is not None:
            del waiting[found[0].decode()]
            yield ServiceAnswer.model_validate_json(found[1])
    for node in waiting.values():
        yield ServiceAnswer(node=node, ok=False, message=f"no answer within {timeout + _WAY:g} s: does it live?")
