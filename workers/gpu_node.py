"""A GPU node: reward models share devices, and each is on a device only while actions use it (evict on execution)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tangram_tasks.errors import ConfigurationError, InvalidAction, ServiceUnavailable
from tangram_tasks.orders import ServiceState
from workers.cells import Cell, CellTree
from workers.device_books import MIB
from workers.device_claims import DeviceClaims
from workers.device_health import DeviceHealth
from workers.devices import Inventory, emulate, poll, probe
from workers.gpu_slots import Slots
from workers.gpu_upkeep import GpuUpkeep
from workers.lease_book import LeaseBook
from workers.outlook import Outlook
from workers.page_out import POLICIES, PageOutName
from workers.pager import Pager
from workers.paging import Paging
from workers.residency import PageIn, Residency
from workers.service import Service
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
        page_out: which services make room for others.
        cells: groups of devices, by index, with a fast link inside each; None takes what NVML says.
        overlap: let calls start while the later layers of a service are on their way.
        host_budget_mib: memory for host images, the least used of which stay on disk; None takes 60 % of the machine's.

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
        page_out: PageOutName = "queue_aware",
        cells: Sequence[Sequence[int]] | None = None,
        overlap: bool = False,
        host_budget_mib: int | None = None,
    ) -> None:
        self.node = node
        self.outlook = Outlook()
        inventory = _inventory(devices, budget_mib, link_gbps)
        paging = Paging(POLICIES[page_out], self.outlook.next_uses, overlap=overlap)
        if host_budget_mib is not None:
            paging = replace(paging, host_bytes=host_budget_mib * MIB)
        self._slots = _build(inventory, services, state_dir, threads, paging)
        try:
            self._cells = CellTree(cells or self._slots.groups, len(self._slots.devices))
        except ConfigurationError:
            self._slots.free()
            raise
        self._claims = DeviceClaims(self._cells)
        self._leases = LeaseBook(node)
        self._upkeep = GpuUpkeep(node, self._leases.reap, self._health(inventory))

    @property
    def capacity(self) -> dict[str, int]:
        """Units it offers: devices, but those on which something runs that does not end."""
        return {"gpu": max(0, self._claims.usable - self._leases.stuck)}

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
        choices = self._choices(service, action, units)
        lease = ServiceLease(self._slots.services[service], action, deadline)
        with self._leases.lease(action, lease) as held:
            lease.check()
            with self.outlook.wait(action, service):
                chosen = held.enter_context(
                    self._claims.claim(
                        action,
                        choices,
                        deadline=deadline,
                        rank=lambda index: self._slots.devices[index].pager.cost(service),
                        check=lease.check_cancelled,
                    )
                )
            for slot in (self._slots.devices[index] for index in chosen):
                cost = held.enter_context(slot.pager.pin(service, action=action, deadline=deadline))
                lease.add(slot.replicas[service], cost, slot.thread)
            yield lease

    def find(self, service: str) -> Service:
        """Return a service. Raises InvalidAction naming those there are."""
        self._pagers(service)
        return self._slots.services[service]

    def states(self, service: str) -> list[ServiceState]:
        """Return how a service is on each of its devices. Raises InvalidAction."""
        return [pager.state(service) for pager in self._pagers(service)]

    def load(self, service: str, *, deadline: float) -> PageIn:
        """Page a service in wherever it has failed, else where that costs least.

        Raises InvalidAction, ServiceUnavailable.
        """
        pagers = {index: slot.pager for index, slot in enumerate(self._slots.devices) if service in slot.replicas}
        places = self.find(service).spans or tuple((index,) for index in pagers)
        failed = {index for index, pager in pagers.items() if pager.residency(service) is Residency.FAILED}
        chosen: set[int] = set()
        for place in places:  # from small to large
            if failed.intersection(place) - chosen:
                chosen.update(place)
        if not chosen:
            cheapest = min(places, key=lambda place: (len(place), sum(pagers[at].cost(service) for at in place)))
            chosen.update(cheapest)
        loads = [pagers[index].load(service, deadline=deadline) for index in sorted(chosen)]
        return PageIn(sum(one.seconds for one in loads), sum(one.count for one in loads))

    def park(self, service: str, *, deadline: float | None = None) -> None:
        """Page a service out wherever it is; see `Pager.park`. Raises InvalidAction, ServiceUnavailable."""
        for pager in self._pagers(service):
            pager.park(service, deadline=deadline)

    def keep(self, service: str, kept: bool) -> None:
        """Let a service never make room for others, or let it again. Raises InvalidAction."""
        for pager in self._pagers(service):
            pager.keep(service, kept)

    def cancel(self, action: str) -> bool:
        """End the action before its next batch; False if it has no lease and waits for none here."""
        lease = self._leases.find(action)
        if lease is None:
            return False
        lease.cancel()
        self._claims.recheck()
        return True

    def lose(self, index: int) -> None:
        """Tell the action that uses a device that it is gone."""
        action = self._claims.holder(index)
        lease = None if action is None else self._leases.find(action)
        if lease is not None:
            lease.lose(f"GPU {self._slots.devices[index].pager.device} of node {self.node} is lost")

    def takes(self, service: str, units: int) -> bool:
        """Whether a lease can have so many devices. Raises ServiceUnavailable if the node stops."""
        try:
            return bool(self._choices(service, "", units))
        except InvalidAction:
            return False

    def stats(self) -> dict[str, float]:
        """Counters since the start, and on how many devices each service is resident."""
        pagers = [slot.pager for slot in self._slots.devices]
        counters = [pager.counters for pager in pagers]
        resident = {
            f"resident.{name}": float(sum(pager.residency(name) is Residency.RESIDENT for pager in self._pagers(name)))
            for name in self._slots.services
        }
        return {
            "page_ins": float(sum(one.page_ins for one in counters)),
            "page_outs": float(sum(one.page_outs for one in counters)),
            "bytes_in": float(sum(one.bytes_in for one in counters)),
            "hits": float(sum(one.hits for one in counters)),
            **resident,
            **{f"cold.{name}": 1.0 for name in self._slots.host.cold},
        }

    def stop(self, grace: float = 5.0) -> None:
        """Refuse new leases, cancel the open ones, wait `grace` seconds for them, give memory back. Idempotent."""
        open_leases = self._leases.close(f"GPU node {self.node} is stopping")
        if open_leases is None:
            return
        self._upkeep.stop()
        for lease in open_leases:
            lease.cancel()
        self._claims.recheck()
        deadline = time.monotonic() + grace
        self._claims.wait_idle(deadline)
        closed = [slot.pager.close(deadline) for slot in self._slots.devices]
        for slot in self._slots.devices:
            slot.thread.stop()
        if not all(closed):
            logger.warning("GPU node %s: actions still compute after %.1f s; their memory is kept", self.node, grace)
            return
        self._slots.free()

    def page_in(self, service: str, devices: Sequence[int]) -> None:
        """Bring a service onto devices that nobody uses, ahead of need. What is not possible now is left out.

        Args:
            service: what to page in.
            devices: by index.
        """
        able = {index: slot.pager for index, slot in enumerate(self._slots.devices) if service in slot.replicas}
        if not able or self.find(service).spans:  # an engine on several devices wakes as a whole
            return
        for index in devices:
            if index not in able or not self._claims.idle(index):
                continue
            try:
                with able[index].pin(service, action="page-in hint", deadline=time.monotonic()):
                    pass
            except ServiceUnavailable as error:
                logger.info("GPU node %s leaves out a page-in hint: %s", self.node, error)

    def _health(self, inventory: Inventory) -> DeviceHealth | None:
        if inventory.source != "nvml":
            return None
        return DeviceHealth([slot.pager.device for slot in self._slots.devices], poll, self._claims.retire, self.lose)

    def _pagers(self, service: str) -> list[Pager]:
        found = [slot.pager for slot in self._slots.devices if service in slot.replicas]
        if not found:
            raise InvalidAction(f"node {self.node} has no service {service!r}, only: {', '.join(self.services)}")
        return found

    def _choices(self, service: str, action: str, units: int) -> tuple[Cell, ...]:
        """Return the cells that an action could be given. Raises InvalidAction."""
        if service not in self._slots.services:
            if self._leases.closed:
                raise ServiceUnavailable(f"GPU node {self.node} is stopping: action {action} gets no service")
            known = ", ".join(self._slots.services)
            raise InvalidAction(f"action {action}: node {self.node} has no service {service!r}, only: {known}")
        count = len(self._slots.devices)
        if not 1 <= units <= count:
            raise InvalidAction(f"action {action} asks for {units} of {count} devices of {self.node}")
        sizes, spans = self._slots.services[service].sizes, self._slots.services[service].spans
        if sizes and units not in sizes:
            allowed = ", ".join(map(str, sizes))
            raise InvalidAction(f"action {action} asks for {units} devices, and service {service} takes {allowed}")
        able = {index for index, slot in enumerate(self._slots.devices) if service in slot.replicas}
        choices = [cell for cell in spans or self._cells.choices(units) if len(cell) == units and able.issuperset(cell)]
        if not choices:
            raise InvalidAction(
                f"action {action} asks for {units} devices of {self.node}, and service {service} can be on "
                f"{sorted(map(list, spans)) if spans else sorted(able)} only"
            )
        return tuple(choices)


def _inventory(devices: int | None, budget_mib: int | None, link_gbps: float | None) -> Inventory:
    if devices is not None or budget_mib is not None:
        budget = None if budget_mib is None else budget_mib * MIB
        return emulate(1 if devices is None else devices, budget_bytes=budget, link_gbps=link_gbps)
    found = probe()
    if not found.devices:
        raise ConfigurationError(f"this machine has no usable GPU ({found.reason}): set devices and budget to emulate")
    return found


def _build(
    inventory: Inventory, services: Sequence[str], state_dir: Path, threads: int | None, paging: Paging
) -> Slots:
    try:
        return Slots.build(inventory, services, state_dir, threads, paging)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ConfigurationError("a GPU node needs torch, which is not installed: install tangram-rl[gpu]") from error
