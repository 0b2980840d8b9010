"""The devices of a GPU node, each with its memory, its pager and a replica of every service."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tangram_tasks.errors import ConfigurationError
from workers.arena import aligned
from workers.device_thread import DeviceThread
from workers.devices import Device, Inventory, groups_of
from workers.host_memory import HostMemory
from workers.pager import Pager
from workers.paging import Paging
from workers.service import Paged, Place, Service
from workers.service_catalogue import declared_services, load_service
from workers.service_declaration import ServiceDeclaration, TorchDeclaration

if TYPE_CHECKING:
    from workers.device_ops import DeviceOps
    from workers.torch_service import TorchService

logger = logging.getLogger(__name__)

#: Bytes of a real GPU that stay outside the arena: the CUDA context, activations, their fragmentation.
HEADROOM = 2 << 30


@dataclass(frozen=True, slots=True)
class Slot:
    """One device."""

    pager: Pager
    replicas: dict[str, Paged]
    thread: DeviceThread


@dataclass(frozen=True, slots=True)
class Slots:
    """All devices of a node, and the services they share."""

    devices: tuple[Slot, ...]
    services: dict[str, Service]
    host: HostMemory
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def build(
        cls, inventory: Inventory, services: Sequence[str], state_dir: Path, threads: int | None, paging: Paging
    ) -> Slots:
        """Load the services and prepare the devices. Raises ConfigurationError."""
        if not services:
            raise ConfigurationError("a GPU node needs one service or more")
        if inventory.reason:
            logger.warning("not all GPUs are used: %s", inventory.reason)
        declarations = declared_services(services)
        devices = _devices(inventory, declarations, threads)
        loaded: dict[str, Service] = {}
        host = HostMemory(paging.host_bytes, state_dir / "images")
        with ExitStack() as undo:  # pinned memory must not stay behind when a later service fails
            for declaration in declarations:
                loaded[declaration.name] = service = load_service(declaration, state_dir, devices[0][1])
                undo.callback(service.free)
                if service.in_arena:
                    host.add(service.name, cast("TorchService", service).image)
            groups = groups_of([device for device, _ in devices])
            built = cls(_slots(devices, loaded, paging), loaded, host, groups)
            undo.pop_all()
        return built

    def free(self) -> None:
        """Give the memory back; to be called when nothing is leased and the pagers are closed."""
        for slot in self.devices:
            slot.replicas.clear()
        for service in self.services.values():
            service.free()
        self.services.clear()


def _devices(
    inventory: Inventory, declarations: Sequence[ServiceDeclaration], threads: int | None
) -> Sequence[tuple[Device, DeviceOps | None]]:
    """Return the devices, with what moves bytes there if a service computes in this process.

    Raises ConfigurationError if none can be used, or services exclude each other.
    """
    here = [one.name for one in declarations if isinstance(one, TorchDeclaration)]
    if not here:
        return [(device, None) for device in inventory.devices]
    others = [one.name for one in declarations if one.name not in here]
    if others and inventory.source != "emulated":
        raise ConfigurationError(
            f"services in this process ({', '.join(here)}) take their arena of a GPU for good, so engines "
            f"({', '.join(others)}) cannot page in and out beside them: give them a node of their own"
        )
    from workers.torch_devices import torch_devices

    return torch_devices(inventory, threads)


def _slots(
    devices: Sequence[tuple[Device, DeviceOps | None]], services: Mapping[str, Service], paging: Paging
) -> tuple[Slot, ...]:
    budgets = [_budget(device, services.values(), at) for at, (device, _) in enumerate(devices)]
    pagers = [Pager(device.id, budget, paging) for (device, _), budget in zip(devices, budgets, strict=True)]
    places = [_place(device, ops, budget, paging) for (device, ops), budget in zip(devices, budgets, strict=True)]
    replicas = {name: service.replicas(places) for name, service in services.items()}
    slots = []
    for index, (pager, place) in enumerate(zip(pagers, places, strict=True)):
        own = {name: paged for name, copies in replicas.items() if (paged := copies[index]) is not None}
        for name, paged in own.items():
            pager.register(name, paged)
        slots.append(Slot(pager, own, _thread(place)))
    return tuple(slots)


def _place(device: Device, ops: DeviceOps | None, budget: int, paging: Paging) -> Place:
    return Place(device.id) if ops is None else Place(device.id, ops, ops.arena(budget), paging.overlap)


def _thread(place: Place) -> DeviceThread:
    if place.ops is None:
        return DeviceThread(place.device)
    from workers.torch_devices import same_threads

    return DeviceThread(place.device, same_threads)


def _budget(device: Device, services: Collection[Service], index: int) -> int:
    """Return the bytes to share out: never more than all services take, on a real GPU never into the headroom.

    What engines keep while they sleep is taken off: it is never free.
    """
    whole = sum(aligned(service.nbytes) for service in services)
    kept = sum(service.residual_bytes for service in services if _is_on(service, index))
    if device.emulated:
        return (device.total_bytes - kept) if device.total_bytes else whole
    # Engines may still hold what is theirs: they give it up when they are put to sleep, below.
    free = device.free_bytes if any(service.in_arena for service in services) else device.total_bytes
    if free is None:
        raise ConfigurationError(f"the driver does not tell how much memory GPU {device.id} has")
    return min(whole, max(0, free - HEADROOM - kept))


def _is_on(service: Service, index: int) -> bool:
    return not service.spans or any(index in span for span in service.spans)
