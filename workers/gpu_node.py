"""A GPU node: reward models share devices, and each is on a device only while actions use it (evict on execution)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tangram_tasks.errors import ConfigurationError, InvalidAction, ServiceUnavailable
from workers.device_books import MIB
from workers.device_claims import DeviceClaims
from workers.devices import Inventory, emulate, probe
from workers.gpu_slots import Slots
from workers.residency import Residency
from workers.service_lease import ServiceLease

logger = logging.getLogger(__name__)


class GpuNode:
    """Loads services into host images and leases them, paged in on a device, to actions.

    Args:
        node: its name.
        state_dir: where converted weights are cached.
        services: "minilm", "smollm2" or "name=module:function"; see `workers.service_catalogue`.
        devices: emulate so many devices; None, with `budget_mib` None too, takes the CUDA devices there are.
        budget_mib: memory of each emulated device; None holds all services at once.
        link_gbps: pace of copies to an emulated device in 10^9 bytes per second; None copies at full speed.
        threads: CPU threads of one call; None spreads the cores over the emulated devices.

    Raises:
        ConfigurationError: torch, a model package or a device is missing, or a service cannot be paged or does not fit.
    """

    def __init__(
        self,
        *,
        node: str,
        state_dir: Path,
        services: Sequence[str] = ("minilm", "smollm2"),
        devices: int | None = None,
        budget_mib: int | None = None,
        link_gbps: float | None = None,
        threads: int | None = None,
    ) -> None:
        self.node = node
        self._slots = _build(_inventory(devices, budget_mib, link_gbps), services, state_dir, threads)
        self._claims = DeviceClaims(len(self._slots.devices))
        self._leases: dict[str, ServiceLease] = {}
        self._lock = threading.Lock()
        self._stopped = False

    @property
    def capacity(self) -> dict[str, int]:
        """Units it offers."""
        return {"gpu": len(self._slots.devices)}

    @property
    def services(self) -> tuple[str, ...]:
        """The services it can page in."""
        return tuple(self._slots.services)

    @contextmanager
    def lease(self, *, service: str, action: str, units: int, deadline: float) -> Iterator[ServiceLease]:
        """Hold a service on `units` free devices for the length of the context, paging it in where it is not resident.

        Args:
            service: one of `services`.
            action: task id.
            units: devices; with several, calls are spread over replicas of the weights.
            deadline: `time.monotonic()` value at which the action's timeout ends.

        Raises:
            InvalidAction: no such service, or more units than devices.
            ServiceUnavailable: no device or no room before the deadline, a page-in failed, or the node stops.
            ActionCancelled: cancelled while it waited.
            ActionTimeout: the deadline had passed already.
        """
        lease = self._open(service, action, units, deadline)
        try:
            lease.check()
            with ExitStack() as held:
                chosen = held.enter_context(
                    self._claims.claim(
                        action,
                        units,
                        deadline=deadline,
                        rank=lambda index: self._slots.devices[index].pager.cost(service),
                        check=lease.check_cancelled,
                    )
                )
                for slot in (self._slots.devices[index] for index in chosen):
                    cost = held.enter_context(slot.pager.pin(service, action=action, deadline=deadline))
                    lease.add(slot.replicas[service], cost)
                held.callback(lease.end)
                yield lease
        finally:
            with self._lock:
                del self._leases[action]

    def cancel(self, action: str) -> bool:
        """End the action before its next batch; False if it has no lease and waits for none here."""
        with self._lock:
            lease = self._leases.get(action)
        if lease is None:
            return False
        lease.cancel()
        self._claims.recheck()
        return True

    def stats(self) -> dict[str, float]:
        """Counters since the start, and on how many devices each service is resident."""
        pagers = [slot.pager for slot in self._slots.devices]
        counters = [pager.counters for pager in pagers]
        resident = {
            f"resident.{name}": float(sum(pager.residency(name) is Residency.RESIDENT for pager in pagers))
            for name in self._slots.services
        }
        return {
            "page_ins": float(sum(one.page_ins for one in counters)),
            "page_outs": float(sum(one.page_outs for one in counters)),
            "bytes_in": float(sum(one.bytes_in for one in counters)),
            "hits": float(sum(one.hits for one in counters)),
            **resident,
        }

    def stop(self, grace: float = 5.0) -> None:
        """Refuse new leases, cancel the open ones, wait `grace` seconds for them, give memory back. Idempotent."""
        with self._lock:
            stopped, self._stopped = self._stopped, True
            open_leases = list(self._leases.values())
        if stopped:
            return
        for lease in open_leases:
            lease.cancel()
        self._claims.recheck()
        deadline = time.monotonic() + grace
        self._claims.wait_idle(deadline)
        closed = [slot.pager.close(deadline) for slot in self._slots.devices]
        if not all(closed):
            logger.warning("GPU node %s: actions still compute after %.1f s; their memory is kept", self.node, grace)
            return
        self._slots.free()

    def _open(self, service: str, action: str, units: int, deadline: float) -> ServiceLease:
        with self._lock:
            if self._stopped:
                raise ServiceUnavailable(f"GPU node {self.node} is stopping: action {action} gets no service")
            if service not in self._slots.services:
                known = ", ".join(self._slots.services)
                raise InvalidAction(f"action {action}: node {self.node} has no service {service!r}, only: {known}")
            if not 1 <= units <= len(self._slots.devices):
                raise InvalidAction(
                    f"action {action} asks for {units} of {len(self._slots.devices)} devices of {self.node}"
                )
            if action in self._leases:
                raise InvalidAction(f"action {action} already has a lease on node {self.node}")
            lease = self._leases[action] = ServiceLease(self._slots.services[service], action, deadline)
            return lease


def _inventory(devices: int | None, budget_mib: int | None, link_gbps: float | None) -> Inventory:
    if devices is not None or budget_mib is not None:
        budget = None if budget_mib is None else budget_mib * MIB
        return emulate(1 if devices is None else devices, budget_bytes=budget, link_gbps=link_gbps)
    found = probe()
    if not found.devices:
        raise ConfigurationError(f"this machine has no usable GPU ({found.reason}): set devices and budget to emulate")
    return found


def _build(inventory: Inventory, services: Sequence[str], state_dir: Path, threads: int | None) -> Slots:
    try:
        return Slots.build(inventory, services, state_dir, threads)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ConfigurationError("a GPU node needs torch, which is not installed: install tangram-rl[gpu]") from error
