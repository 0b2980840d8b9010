"""A CPU node: the sandboxes of its trajectories, and its cores, given to actions one by one."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

from tangram_tasks.action import Qos
from tangram_tasks.errors import ConfigurationError, SandboxError
from tangram_tasks.resources import CPU, MEMORY, MIB
from tangram_tasks.wire import OpenTrajectory
from workers.cpu_book import CpuBook
from workers.cpu_grants import CpuGrants
from workers.isolation import MIN_MEMORY_MIB
from workers.live_sandbox import LiveSandbox
from workers.sandbox_backend import BackendName, choose_backend
from workers.sandbox_lease import SandboxLease
from workers.upkeep import Upkeep

logger = logging.getLogger(__name__)
CREATORS = 4  # sandboxes made or removed at once: more only queue inside the engine
_MEMORY_SHARE = 0.8


class CpuNode:
    """Sandboxes and cores of one machine. Thread safe.

    Args:
        node: its name, unique in the deployment.
        owner: the deployment; a sweep removes only what carries both names.
        state_dir: where the sandboxes' folders live.
        cores: how many cores it offers; by default all that this process may use.
        cpu_unit: cores per unit.
        memory_mib: memory it offers, MiB; by default 80 % of the machine's.
        backend: what makes the sandboxes.
        unsafe_local: allow commands without isolation.

    Raises:
        ConfigurationError: no backend works, there are not as many cores, or the node runs already.
    """

    def __init__(
        self,
        *,
        node: str,
        owner: str,
        state_dir: Path,
        cores: float | None = None,
        cpu_unit: float = 1.0,
        memory_mib: int | None = None,
        backend: BackendName = "auto",
        unsafe_local: bool = False,
    ) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        book = CpuBook(cpus, len(cpus) if cores is None else cores, cpu_unit)
        self._grants = CpuGrants(node, book)
        self.node = node
        self.capacity = {CPU: book.units, MEMORY: memory_mib or _machine_memory()}
        self._folder = state_dir.resolve() / "sandboxes" / quote(node, safe="")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._claim = _claim(self._folder, node)
        try:
            self._backend = choose_backend(
                backend, node=node, owner=owner, state_dir=self._folder, unsafe_local=unsafe_local
            )
        except BaseException:
            os.close(self._claim)
            raise
        self.backend_name = self._backend.name
        # Its threads also are the parents that sandboxes without an engine die with: they must last as long.
        self._creators = ThreadPoolExecutor(CREATORS, thread_name_prefix="tangram-sandbox")
        self._lock = threading.Lock()
        self._sandboxes: dict[str, Future[LiveSandbox]] = {}
        self._live: set[str] = set()
        self._opened = self._failed = 0
        self._stopped = False
        self._upkeep = Upkeep(node, self._up, self._grants)

    def open(self, order: OpenTrajectory) -> None:
        """Make the trajectory's sandbox and wait until it is ready. Idempotent; at most 4 are made at once.

        Raises:
            SandboxError: it cannot be made; the message says why and what to do.
        """
        if order.memory < MIN_MEMORY_MIB:
            raise SandboxError(
                f"trajectory {order.trajectory} asks for {order.memory} MiB: a sandbox needs {MIN_MEMORY_MIB}"
            )
        with self._lock:
            if self._stopped:
                raise SandboxError(f"node {self.node} has stopped: trajectory {order.trajectory} needs another one")
            future = self._sandboxes.get(order.trajectory)
            if future is None:
                future = self._sandboxes[order.trajectory] = self._creators.submit(self._create, order)
        try:
            future.result()
        except SandboxError:
            with self._lock:
                if self._sandboxes.get(order.trajectory) is future:
                    del self._sandboxes[order.trajectory]
            raise

    def close(self, trajectory: str) -> None:
        """Remove the trajectory's sandbox; what runs in it is killed and ends as cancelled. Idempotent.

        Raises:
            SandboxError: it cannot be removed.
        """
        with self._lock:
            future = self._sandboxes.pop(trajectory, None)
        for lease in self._grants.leases():
            if lease.sandbox.trajectory == trajectory:
                lease.cancel()
        if future is None or future.exception() is not None:
            return
        sandbox = future.result()
        sandbox.remove()
        with self._lock:
            self._live.discard(sandbox.lease)

    @contextlib.contextmanager
    def lease(
        self,
        *,
        trajectory: str,
        action: str,
        units: int,
        max_units: int,
        deadline: float,
        grant: str = "",
        qos: Qos = "ls",
    ) -> Iterator[SandboxLease]:
        """Give an action its units for the length of the block.

        Args:
            trajectory: in whose sandbox it runs.
            action: its id.
            units: what it was granted; 0 for a light action, which shares CPUs with others.
            max_units: the largest size it may ever get.
            deadline: `time.monotonic()` value at which its commands are killed.
            grant: the grant's id, by which a later `resize` knows it.
            qos: whom the kernel favours where two actions meet.

        Raises:
            SandboxError: the trajectory has no sandbox here.
            GrantUnheld: the units are not free.
        """
        sandbox = self._sandbox(trajectory)
        lease = SandboxLease(sandbox, action=action, units=units, max_units=max_units, deadline=deadline)
        with self._grants.hold(lease, grant=grant, units=units, qos=qos):
            yield lease

    def resize(self, action: str, units: int, grant: str | None = None) -> bool:
        """Let a running action have other units. See `workers.cpu_grants.CpuGrants.resize`."""
        return self._grants.resize(action, units, grant)

    def units_of(self, action: str, grant: str | None = None) -> int:
        """Units that a running action holds; 0 if it does not run here."""
        return self._grants.units_of(action, grant)

    def cancel(self, action: str) -> bool:
        """Kill what the action runs here; its `exec` raises ActionCancelled. Return whether it runs here."""
        running = [lease for lease in self._grants.leases() if lease.action == action]
        for lease in running:
            lease.cancel()
        return bool(running)

    def sweep(self) -> list[str]:
        """Remove sandboxes that an earlier process of this node left behind; return their leases.

        Raises:
            SandboxError: one of them cannot be removed.
        """
        with self._lock:
            live = set(self._live)
        folders = [path for path in self._folder.iterdir() if path.is_dir() and path.name not in live]
        return self._backend.sweep([path for path in folders if path.name.startswith(_LEASE)], live)

    def stop(self) -> None:
        """Remove every sandbox. Idempotent; call it at exit."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            trajectories = list(self._sandboxes)
        self._upkeep.stop()
        for future in [self._creators.submit(self.close, trajectory) for trajectory in trajectories]:
            try:
                future.result()
            except SandboxError as error:
                logger.warning("node %s leaves a sandbox behind for the next sweep: %s", self.node, error)
        self._creators.shutdown()
        self._backend.close()
        os.close(self._claim)

    def stats(self) -> dict[str, float]:
        """Return counters for people."""
        with self._lock:
            return {
                "sandboxes": len(self._live),
                "sandboxes_opened": self._opened,
                "sandboxes_failed": self._failed,
                "drift_total": self._upkeep.drift_total,
                **self._grants.stats(),
            }

    def _create(self, order: OpenTrajectory) -> LiveSandbox:
        lease = _LEASE + uuid.uuid4().hex[:16]
        with self._lock:
            self._live.add(lease)
        try:
            sandbox = self._backend.create(order, self._folder / lease)
        except BaseException:
            with self._lock:
                self._live.discard(lease)
                self._failed += 1
            raise
        with self._lock:
            self._opened += 1
        return sandbox

    def _sandbox(self, trajectory: str) -> LiveSandbox:
        future = self._sandboxes.get(trajectory)
        if future is None:
            raise SandboxError(f"trajectory {trajectory} has no sandbox on node {self.node}: it is closed or lost")
        return future.result()

    def _up(self) -> list[LiveSandbox]:
        with self._lock:
            ended = [future for future in self._sandboxes.values() if future.done()]
        return [future.result() for future in ended if future.exception() is None]


_LEASE = "sandbox-"


def _claim(folder: Path, node: str) -> int:
    """Lock the node's folder: a second process would sweep away the first one's sandboxes."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ConfigurationError(f"node {node} already runs with {folder}: give this one another name") from None
    return descriptor


def _machine_memory() -> int:
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MEMORY_SHARE / MIB)
