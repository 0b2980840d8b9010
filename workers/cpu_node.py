"""A CPU node: the sandboxes of its trajectories, and its cores, given to actions one by one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import quote

from tangram_tasks.action import Qos
from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.egress import Egress
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.resources import CPU, MEMORY, MIB
from workers.cpu_book import CpuBook
from workers.cpu_grants import CpuGrants
from workers.sandbox_backend import BackendName, choose_backend
from workers.sandbox_lease import SandboxLease
from workers.sandbox_policy import DEFAULT_POLICY, SandboxPolicy
from workers.sandbox_roster import SandboxRoster
from workers.upkeep import Upkeep

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
        policy: what the operator says of its sandboxes.

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
        policy: SandboxPolicy = DEFAULT_POLICY,
    ) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        book = CpuBook(cpus, len(cpus) if cores is None else cores, cpu_unit)
        self._grants, self._cpu_unit = CpuGrants(node, book), cpu_unit
        self.node = node
        self._units, self._memory_mib = book.units, memory_mib or _machine_memory()
        folder = state_dir.resolve() / "sandboxes" / quote(node, safe="")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_memory(self._memory_mib, policy)
        self._claim = _claim(folder, node)
        try:
            made = choose_backend(backend, node=node, owner=owner, state_dir=folder, unsafe_local=unsafe_local)
        except BaseException:
            os.close(self._claim)
            raise
        self.backend_name = made.name
        self._roster = SandboxRoster(
            made, folder, node=node, policy=policy, free_cores=lambda: book.free * cpu_unit, keep=book.units
        )
        self._lock = threading.Lock()
        self._stopped = False
        self._upkeep = Upkeep(node, self._roster.up, self._grants)

    @property
    def capacity(self) -> dict[str, int]:
        """Units and MiB that it offers to trajectories."""
        return {CPU: self._units, MEMORY: self._memory_mib - self._roster.warm_mib}

    @property
    def trajectories(self) -> tuple[str, ...]:
        """The trajectories whose sandboxes are up."""
        return self._roster.trajectories

    def open(self, order: OpenTrajectory) -> None:
        """Make the trajectory's sandbox and wait until it is ready. See SandboxRoster."""
        self._roster.open(order)

    def close(self, trajectory: str) -> None:
        """Remove the trajectory's sandbox; what runs in it is killed and ends as cancelled. Idempotent.

        Raises:
            SandboxError: it cannot be removed now.
        """
        for lease in self._grants.leases():
            if lease.sandbox.trajectory == trajectory:
                lease.cancel()
        self._roster.close(trajectory)

    def keep_warm(self, image: str, memory: int, count: int) -> None:
        """Keep so many sandboxes ready; the node offers so much less memory. See SandboxRoster.

        Raises:
            ConfigurationError: that would be all the memory there is, or makes no sense.
        """
        self._roster.keep_warm(image, memory, count, most=self._memory_mib)

    def change_egress(self, trajectory: str, egress: Egress) -> None:
        """Let the trajectory's sandbox reach something else. See LiveSandbox. Raises SandboxError."""
        self._roster.get(trajectory).change_egress(egress)

    def stateless(self, name: str, image: str, memory: int) -> AbstractContextManager[None]:
        """Have a clean sandbox under this name for the length of the block. See SandboxRoster."""
        return self._roster.stateless(name, image, memory)

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
        sandbox = self._roster.get(trajectory)
        lease = SandboxLease(
            sandbox,
            action=action,
            units=units,
            max_units=max_units,
            deadline=deadline,
            cpu_unit=self._cpu_unit,
        )
        self._roster.gate.note_action()
        try:
            with self._grants.hold(lease, grant=grant, units=units, qos=qos):
                yield lease
        finally:
            self._roster.gate.note_action()

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

    def adopt(self) -> list[str]:
        """Take over what an earlier process of this node left alive; return the trajectories. See SandboxRoster."""
        return self._roster.adopt()

    def sweep(self) -> list[str]:
        """Remove what an earlier process left and nobody adopted; return the leases. See SandboxRoster."""
        return self._roster.sweep()

    def prefetch(self) -> None:
        """Get the images that the policy names. See SandboxRoster."""
        self._roster.prefetch()

    def stop(self) -> None:
        """Remove every sandbox. Idempotent; call it at exit."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        self._upkeep.stop()
        for lease in self._grants.leases():
            lease.cancel()
        self._roster.stop()
        os.close(self._claim)

    def stats(self) -> dict[str, float]:
        """Return counters for people."""
        return {**self._roster.stats(), **self._grants.stats(), "drift_total": self._upkeep.drift_total}


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


def _check_memory(memory: int, policy: SandboxPolicy) -> None:
    if policy.reserved_mib >= memory:
        raise ConfigurationError(f"warm: its sandboxes take {policy.reserved_mib} MiB, all that the node has")
