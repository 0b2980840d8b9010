"""The node's voice: announces it, keeps its heart beating, and listens for orders."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import redis
from pydantic import TypeAdapter, ValidationError

from tangram_tasks import orders, wire
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.holding import GrantsHeld
from tangram_tasks.keys import Keys
from workers.node import Node
from workers.recollection import Recollection
from workers.runtime import Runtime

logger = logging.getLogger(__name__)

_LUA = Path(__file__).parent / "lua"

#: A node's name is taken while its process on another host was heard within so many seconds.
_TAKEN = 10.0
AUDIT_EVERY = 10.0  # s between two reports of what is granted here
DRAIN_TIME = 3.0  # s after the order before which a node does not leave: what was placed on it meanwhile must show
ANSWER_LIFE = 60  # s that an answer waits for who asked

_ORDER: TypeAdapter[orders.NodeOrder] = TypeAdapter(orders.NodeOrder)


class Announcer:
    """Heartbeats and orders of one node, in threads of their own so that busy actions cannot silence it.

    Args:
        client: the deployment's Redis.
        keys: names.
        node: what is announced.
        runtime: kills actions on order.
        memory: knows what runs here, and reminds a broker that was restarted.
        generation: new on every start of the process.
        heartbeat: seconds between beats.
    """

    def __init__(
        self,
        client: redis.Redis,
        keys: Keys,
        node: Node,
        runtime: Runtime,
        memory: Recollection,
        generation: str,
        heartbeat: float,
    ) -> None:
        self._client = client
        self._keys = keys
        self._announce, self._event = (
            client.register_script((_LUA / name).read_text()) for name in ("beat.lua", "tell.lua")
        )
        self._node = node
        self._runtime = runtime
        self._memory = memory
        self._generation = generation
        self._heartbeat = heartbeat
        self._stop = threading.Event()
        self._drained_from: float | None = None
        self._next_audit = time.monotonic() + AUDIT_EVERY
        self._obeying: set[Future[None]] = set()
        self._threads: list[threading.Thread] = []
        self._orders = ThreadPoolExecutor(max_workers=4, thread_name_prefix="orders")

    def start(self) -> None:
        """Announce the node and keep at it. Harmless when it runs already (Celery calls it after a reconnect)."""
        if self._threads:
            return
        self._client.delete(self._keys.orders(self._node.name))  # orders to an earlier process of this name
        self._beat()
        self._tell(wire.NodeState(node=self._node.name, generation=self._generation, up=True))
        for turn, pause in ((self._beat_again, self._heartbeat), (self._next_order, 0.0)):
            thread = threading.Thread(target=self._keep_on, args=(turn, pause), name=turn.__name__, daemon=True)
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

    def check_name(self) -> None:
        """Make sure that the name is free: two processes of one name would take each other's grants at every beat.

        Raises:
            ConfigurationError: another live process has this node's name.
        """
        row: Any = self._client.hget(self._keys.nodes, self._node.name)
        if row is None:
            return
        try:
            other = wire.NodeRecord.model_validate_json(row)
        except ValidationError:
            return
        if other.host == socket.gethostname():
            alive = other.pid != os.getpid() and Path(f"/proc/{other.pid}").exists()
        else:
            alive = self._server_time() - other.beat < _TAKEN
        if alive:
            where = f"process {other.pid} on {other.host}"
            raise ConfigurationError(f"node {self._node.name} already runs as {where}: give this one another name")

    def _server_time(self) -> float:
        seconds, microseconds = self._client.time()
        return float(seconds + microseconds / 1e6)

    def _beat(self) -> bool:
        """Announce the node; returns whether it had been forgotten."""
        broker, running = self._memory.confirm(), tuple(self._memory.running)
        record = wire.NodeRecord(
            node=self._node.name,
            kind=self._node.kind,
            generation=self._generation,
            capacity=dict(self._node.capacity),
            quotas=dict(self._node.quotas),
            services=self._node.services,
            trajectories=self._node.trajectories,
            running=running,
            broker=broker,
            draining=self._drained_from is not None,
            host=socket.gethostname(),
            pid=os.getpid(),
            beat=self._server_time(),
            stats=self._node.stats(),
        )
        return bool(self._announce(keys=[self._keys.nodes], args=[self._node.name, record.model_dump_json()]))

    def _beat_again(self) -> None:
        self._runtime.tell_late()
        self._leave_when_drained()
        self._report_held()
        if self._beat() and not self._stop.is_set():
            # The scheduler gave this node up: its grants and sandboxes are not ours any more. Start over.
            logger.error("node %s was given up for dead and restarts", self._node.name)
            self._stop.set()
            self._client.hdel(self._keys.nodes, self._node.name)
            os.kill(os.getpid(), signal.SIGTERM)

    def _keep_on(self, turn: Callable[[], None], pause: float) -> None:
        """Take turns until stopped; no error may silence a node."""
        while not self._stop.wait(pause):
            try:
                turn()
            except (redis.RedisError, OSError) as error:
                logger.warning("node %s: the broker does not answer: %s", self._node.name, error)
                self._stop.wait(1.0)
            except Exception:
                logger.exception("node %s: %s failed", self._node.name, turn.__name__)
                self._stop.wait(1.0)

    def _tell(self, event: wire.NodeEvent) -> None:
        self._event(keys=[self._keys.events], args=[event.model_dump_json()])

    def _answer(self, order: orders.ServiceOrder, answer: orders.ServiceAnswer | None) -> None:
        if answer is None:
            answer = orders.ServiceAnswer(node=self._node.name, ok=False, message=f"{self._node.name} has no services")
        key = self._keys.answer(order.reply)
        pipeline = self._client.pipeline()
        pipeline.rpush(key, answer.model_dump_json())
        pipeline.expire(key, ANSWER_LIFE)
        pipeline.execute()

    def _report_held(self) -> None:
        if time.monotonic() >= self._next_audit:
            self._next_audit = time.monotonic() + AUDIT_EVERY
            at = self._server_time()
            held = self._runtime.held()
            self._tell(GrantsHeld(node=self._node.name, generation=self._generation, at=at, held=held))

    def _leave_when_drained(self) -> None:
        """Ask for an orderly end when nothing is bound to the node any more and the scheduler has had time to know."""
        since = self._drained_from
        if since is None or time.monotonic() - since < DRAIN_TIME:
            return
        if not self._node.trajectories and all(future.done() for future in self._obeying):
            logger.warning("node %s is drained and leaves", self._node.name)
            os.kill(os.getpid(), signal.SIGTERM)

    def _next_order(self) -> None:
        found = self._client.blpop([self._keys.orders(self._node.name)], timeout=1)
        if found is not None:
            self._dispatch(found[1])

    def _dispatch(self, payload: bytes | str) -> None:
        try:
            order = _ORDER.validate_json(payload)
        except ValidationError:
            logger.warning("node %s refused an order it cannot read", self._node.name)
            return
        if isinstance(order, orders.KillAction):
            self._runtime.kill(order.action, order.grant)
        elif isinstance(order, orders.DrainNode):
            logger.warning("node %s drains: it takes nothing new", self._node.name)
            self._drained_from = self._drained_from or time.monotonic()
        elif isinstance(order, orders.ResizeAction):
            self._obey(order)  # here, since two of one action must not overtake each other; it takes no time
        elif not self._stop.is_set():
            obeying = {future for future in self._obeying if not future.done()}
            self._obeying = obeying | {self._orders.submit(self._obey, order)}

    def _obey(self, order: orders.NodeOrder) -> None:
        try:
            event = self._node.obey(order)
            if isinstance(order, orders.ServiceOrder):
                self._answer(order, event)
            elif event is not None:
                self._tell(event)
        except Exception:
            logger.exception("node %s could not carry out an order to %s", self._node.name, order.op)
