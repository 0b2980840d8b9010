"""The sandboxes of a node from their making to their removal, also across processes of the node."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.errors import SandboxError
from workers.creation_gate import CREATORS, CreationGate
from workers.isolation import MIN_MEMORY_MIB
from workers.janitor import Janitor
from workers.live_sandbox import LiveSandbox
from workers.sandbox_backend import SandboxBackend
from workers.sandbox_folder import SandboxFolder, sandbox_name
from workers.sandbox_policy import SandboxPolicy, check_target
from workers.stateless_pool import StatelessPool
from workers.tree_copy import copy_files
from workers.warm_pool import WarmPool

logger = logging.getLogger(__name__)

LEASE_GRACE = 60.0  # s after the end of its trajectory's lease at which a sandbox goes even if nobody says so
REFILL_EVERY, HOUSEKEEPING_EVERY = 0.5, 5.0  # s
_LEASE = "sandbox-"


class SandboxRoster:
    """Who has which sandbox. Thread safe.

    Args:
        backend: makes them.
        folder: where their folders are.
        node: the node.
        policy: what the operator says of them.
        free_cores: how many cores no action holds; actions are told to `gate`, too.
        keep: how many stateless sandboxes stay between actions.
    """

    def __init__(
        self,
        backend: SandboxBackend,
        folder: Path,
        *,
        node: str,
        policy: SandboxPolicy,
        free_cores: Callable[[], float],
        keep: int,
    ) -> None:
        self._backend, self._folder, self._node, self._policy = backend, folder, node, policy
        # Its threads also are the parents that sandboxes without an engine die with: they must last as long.
        self._creators = ThreadPoolExecutor(CREATORS, thread_name_prefix="tangram-sandbox")
        self.gate = CreationGate(free_cores)
        self._lock = threading.Lock()
        self._sandboxes: dict[str, Future[LiveSandbox]] = {}
        self._expires: dict[str, float] = {}
        self._live: set[str] = set()
        self._doomed: list[LiveSandbox] = []
        self._counters = Counter(sandboxes_opened=0, sandboxes_failed=0, sandboxes_adopted=0, sandboxes_paused=0)
        self._stopped = False
        self._warm = WarmPool(policy.targets, partial(self._beside, self._make), self._retire)
        self._stateless = StatelessPool(partial(self._beside, self._obtain), self._retire, keep)
        self._janitors = [
            Janitor("tangram-housekeeping", self.keep_house, HOUSEKEEPING_EVERY),
            Janitor("tangram-warm-pool", self._refill, REFILL_EVERY),
        ]

    @property
    def trajectories(self) -> tuple[str, ...]:
        """The trajectories whose sandboxes are up."""
        with self._lock:
            return tuple(name for name in self._expires if _is_up(self._sandboxes[name]))

    def up(self) -> list[LiveSandbox]:
        """Return the sandboxes that are lent or belong to a trajectory, and are up."""
        with self._lock:
            return [future.result() for future in self._sandboxes.values() if _is_up(future)]

    def get(self, trajectory: str) -> LiveSandbox:
        """Return a trajectory's sandbox. Raises SandboxError if it has none here."""
        future = self._sandboxes.get(trajectory)
        if future is None:
            raise SandboxError(f"trajectory {trajectory} has no sandbox on node {self._node}: it is closed or lost")
        return future.result()

    def open(self, order: OpenTrajectory) -> None:
        """Make a trajectory's sandbox and wait until it is ready. Idempotent.

        Raises:
            SandboxError: it cannot be made; the message says why and what to do.
        """
        if order.memory < MIN_MEMORY_MIB:
            raise SandboxError(
                f"trajectory {order.trajectory} asks for {order.memory} MiB: a sandbox needs {MIN_MEMORY_MIB}"
            )
        order = order.model_copy(update={"mounts": self._policy.resolve(order.mounts)})
        fresh = order.trajectory not in self._sandboxes
        origin = self.get(order.fork_of) if fresh and order.fork_of is not None else None
        with self._lock:
            if self._stopped:
                raise SandboxError(f"node {self._node} has stopped: trajectory {order.trajectory} needs another one")
            future = self._sandboxes.get(order.trajectory)
            if future is None:
                future = self._sandboxes[order.trajectory] = self._creators.submit(self._fulfil, order, origin)
                self._expires[order.trajectory] = order.expires_at
        try:
            future.result()
        except SandboxError:
            with self._lock:
                if self._sandboxes.get(order.trajectory) is future:
                    del self._sandboxes[order.trajectory], self._expires[order.trajectory]
            raise

    def close(self, trajectory: str) -> None:
        """Remove a trajectory's sandbox. Idempotent.

        Raises:
            SandboxError: it cannot be removed now; that is tried again.
        """
        with self._lock:
            future = self._sandboxes.pop(trajectory, None)
            self._expires.pop(trajectory, None)
        if future is not None and future.exception() is None:
            self._remove(future.result())

    @contextlib.contextmanager
    def stateless(self, name: str, image: str, memory: int) -> Iterator[None]:
        """Have a clean sandbox under this name for the length of the block. Raises SandboxError."""
        sandbox = self._stateless.take(image, memory)
        future: Future[LiveSandbox] = Future()
        future.set_result(sandbox)
        with self._lock:
            self._sandboxes[name] = future
        try:
            yield
        finally:
            with self._lock:
                del self._sandboxes[name]
            self._stateless.give_back(sandbox, image, memory)

    @property
    def warm_mib(self) -> int:
        """MiB that the warm pool's targets hold."""
        return self._warm.reserved_mib

    def keep_warm(self, image: str, memory: int, count: int, most: int) -> None:
        """Keep so many sandboxes ready from now on, in less than `most` MiB in all. Raises ConfigurationError."""
        check_target(image, memory, count)
        for sandbox in self._warm.aim((image, memory), count, most):
            self._retire(sandbox)

    def adopt(self) -> list[str]:
        """Take over the sandboxes that an earlier process of this node left alive; return their trajectories.

        Call it once, before the node is announced, and `sweep` after it.

        Raises:
            SandboxError: the engine does not answer.
        """
        adopted = []
        for path in self._folder.glob(f"{_LEASE}*"):
            record = SandboxFolder(path).record()
            if record is None or record.order.expires_at + LEASE_GRACE < time.time():
                continue
            sandbox = self._backend.adopt(record, path)
            if sandbox is not None:
                future: Future[LiveSandbox] = Future()
                future.set_result(sandbox)
                with self._lock:
                    self._live.add(sandbox.lease)
                    self._sandboxes[sandbox.trajectory] = future
                    self._expires[sandbox.trajectory] = record.order.expires_at
                adopted.append(sandbox.trajectory)
        self._counters["sandboxes_adopted"] += len(adopted)
        return adopted

    def sweep(self) -> list[str]:
        """Remove sandboxes of earlier processes that were not adopted; return their leases. Raises SandboxError."""
        with self._lock:
            live = set(self._live)
        left = [path for path in self._folder.glob(f"{_LEASE}*") if path.name not in live]
        return self._backend.sweep(left, live)

    def prefetch(self) -> None:
        """Get the images that the policy names; it may take as long as pulling them does."""
        self._backend.prefetch(self._policy.images)

    def keep_house(self) -> None:
        """Remove sandboxes whose time is over, and try again those that could not be removed."""
        with self._lock:
            over = [name for name, end in self._expires.items() if end + LEASE_GRACE < time.time()]
            doomed, self._doomed = self._doomed, []
        for name in over:
            logger.warning("the lease of trajectory %s is over and nobody closed it: its sandbox goes", name)
            with contextlib.suppress(SandboxError):
                self.close(name)
        for sandbox in doomed:
            self._retire(sandbox)
        self._stateless.expire()
        if self._policy.pause_after is not None:
            self._counters["sandboxes_paused"] += sum(
                self.get(name).pause(self._policy.pause_after) for name in self.trajectories
            )

    def stop(self) -> None:
        """Remove every sandbox. Idempotent; call it at exit."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            trajectories = list(self._sandboxes)
        for janitor in self._janitors:
            janitor.stop()
        spare = [*self._warm.close(), *self._stateless.close()]
        removals = [self._creators.submit(self.close, trajectory) for trajectory in trajectories]
        removals += [self._creators.submit(self._retire, sandbox) for sandbox in spare]
        for removal in removals:
            try:
                removal.result()
            except SandboxError as error:
                logger.warning("node %s leaves a sandbox behind for the next sweep: %s", self._node, error)
        self._creators.shutdown()
        self._backend.close()

    def stats(self) -> dict[str, float]:
        """Return counters for people."""
        with self._lock:
            counters = {**self._counters, **self._warm.counters, **self._stateless.counters}
            return {"sandboxes": len(self._live), "warm_ready": self._warm.ready, **counters}

    def _refill(self) -> None:
        self._warm.refill(lambda: self.gate.quiet)

    def _fulfil(self, order: OpenTrajectory, origin: LiveSandbox | None) -> LiveSandbox:
        sandbox = self._obtain(order)
        try:
            if origin is not None:
                copy_files(origin, sandbox)
            if sandbox.stamp:
                SandboxFolder(self._folder / sandbox.lease).remember(order, sandbox.stamp)
        except BaseException:
            self._retire(sandbox)
            raise
        with self._lock:
            self._counters["sandboxes_opened"] += 1
            self._counters["sandboxes_without_agent"] += sandbox.agentless
        return sandbox

    def _obtain(self, order: OpenTrajectory) -> LiveSandbox:
        sandbox = self._warm.claim(order)
        if sandbox is None:
            return self._make(order)
        client = sandbox.client
        if not sandbox.agentless:
            folder = SandboxFolder(self._folder / sandbox.lease)
            client = folder.client(sandbox_name(order.trajectory, self._node))
        sandbox.assign(order.trajectory, order.env, client)
        return sandbox

    def _beside(self, get: Callable[[OpenTrajectory], LiveSandbox], order: OpenTrajectory) -> LiveSandbox:
        return self._creators.submit(get, order).result()

    def _make(self, order: OpenTrajectory) -> LiveSandbox:
        lease = _LEASE + uuid.uuid4().hex[:16]
        with self.gate.enter():
            with self._lock:
                self._live.add(lease)
            try:
                return self._backend.create(order, self._folder / lease)
            except BaseException:
                with self._lock:
                    self._live.discard(lease)
                    self._counters["sandboxes_failed"] += 1
                raise

    def _remove(self, sandbox: LiveSandbox) -> None:
        try:
            sandbox.remove()
        except SandboxError:
            with self._lock:
                self._doomed.append(sandbox)
            raise
        with self._lock:
            self._live.discard(sandbox.lease)

    def _retire(self, sandbox: LiveSandbox) -> None:
        with contextlib.suppress(SandboxError):  # housekeeping tries again
            self._remove(sandbox)


def _is_up(future: Future[LiveSandbox]) -> bool:
    return future.done() and future.exception() is None
