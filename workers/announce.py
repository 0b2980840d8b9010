"""The node's voice: announces it, keeps its heart beating, and listens for orders."""

from __future__ import annotations

import logging
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import redis
from pydantic import TypeAdapter, ValidationError

from tangram_tasks import wire
from workers.node import Node
from workers.runtime import Runtime

logger = logging.getLogger(__name__)

_ORDER: TypeAdapter[wire.NodeOrder] = TypeAdapter(wire.NodeOrder)


class Announcer:
    """Heartbeats and orders of one node, in threads of their own so that busy actions cannot silence it.

    Args:
        client: the deployment's Redis.
        keys: names.
        node: what is announced.
        runtime: kills actions on order.
        generation: new on every start of the process.
        heartbeat: seconds between beats.
    """

    def __init__(
        self, client: redis.Redis, keys: wire.Keys, node: Node, runtime: Runtime, generation: str, heartbeat: float
    ) -> None:
        self._client = client
        self._keys = keys
        self._node = node
        self._runtime = runtime
        self._generation = generation
        self._heartbeat = heartbeat
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._orders = ThreadPoolExecutor(max_workers=4, thread_name_prefix="orders")

    def start(self) -> None:
        """Announce the node and keep at it. Harmless when it runs already (Celery calls it after a reconnect)."""
        if self._threads:
            return
        self._client.delete(self._keys.orders(self._node.name))  # orders to an earlier process of this name
        self._beat()
        self._tell(wire.NodeState(node=self._node.name, generation=self._generation, up=True))
        for target in (self._beat_loop, self._order_loop):
            thread = threading.Thread(target=target, name=target.__name__, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Take the announcement back. Idempotent."""
        if self._stop.is_set():
            return
        self._stop.set()
        try:
            self._client.hdel(self._keys.nodes, self._node.name)
            self._tell(wire.NodeState(node=self._node.name, generation=self._generation, up=False))
        except (redis.RedisError, OSError) as error:
            logger.warning("node %s could not say good-bye: %s", self._node.name, error)
        self._orders.shutdown(wait=False, cancel_futures=True)

    def _beat(self) -> None:
        seconds, microseconds = self._client.time()
        record = wire.NodeRecord(
            node=self._node.name,
            kind=self._node.kind,
            generation=self._generation,
            capacity=dict(self._node.capacity),
            quotas=dict(self._node.quotas),
            services=self._node.services,
            host=socket.gethostname(),
            pid=os.getpid(),
            beat=seconds + microseconds / 1e6,
            stats=self._node.stats(),
        )
        self._client.hset(self._keys.nodes, self._node.name, record.model_dump_json())

    def _tell(self, event: wire.NodeEvent) -> None:
        self._client.xadd(self._keys.events, {"m": event.model_dump_json()})

    def _beat_loop(self) -> None:
        while not self._stop.wait(self._heartbeat):
            try:
                self._beat()
            except (redis.RedisError, OSError) as error:
                logger.warning("node %s missed a heartbeat: %s", self._node.name, error)

    def _order_loop(self) -> None:
        while not self._stop.is_set():
            try:
                found = self._client.blpop([self._keys.orders(self._node.name)], timeout=1)
            except (redis.RedisError, OSError) as error:
                logger.warning("node %s cannot listen for orders: %s", self._node.name, error)
                self._stop.wait(1.0)
                continue
            if found is not None:
                self._dispatch(found[1])

    def _dispatch(self, payload: bytes | str) -> None:
        try:
            order = _ORDER.validate_json(payload)
        except ValidationError:
            logger.warning("node %s refused an order: %s", self._node.name, payload[:200])
            return
        if isinstance(order, wire.KillAction):
            self._runtime.kill(order.action, order.grant)
        elif isinstance(order, wire.ResizeAction):
            self._obey(order)  # here, since two of one action must not overtake each other; it takes no time
        elif not self._stop.is_set():
            self._orders.submit(self._obey, order)

    def _obey(self, order: wire.NodeOrder) -> None:
        try:
            event = self._node.obey(order)
            if event is not None:
                self._tell(event)
        except Exception:
            logger.exception("node %s could not carry out %s", self._node.name, order)
