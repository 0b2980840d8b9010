"""The devices of a GPU node, each with its memory, its pager and a replica of every service."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from tangram_tasks.errors import ConfigurationError
from workers.arena import aligned
from workers.device_ops import DeviceOps, ops_for
from workers.device_thread import DeviceThread
from workers.devices import Device, Inventory, groups_of
from workers.host_memory import HostMemory
from workers.pager import Pager
from workers.paging import Paging
from workers.service import Paged, Place, Service
from workers.service_catalogue import declared_services, load_service
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
        devices = _usable(inventory)
        _bound_threads(threads, inventory)
        first = devices[0][1]
        loaded: dict[str, Service] = {}
        host = HostMemory(paging.host_bytes, state_dir / "images")
        with ExitStack() as undo:  # pinned memory must not stay behind when a later service fails
            for declaration in declared_services(services):
                loaded[declaration.name] = service = load_service(declaration, state_dir, first)
                undo.callback(service.free)
                if isinstance(service, TorchService):
                    host.add(service.name, service.image)
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


def _usable(inventory: Inventory) -> list[tuple[Device, DeviceOps]]:
    found = [(device, ops) for device in inventory.devices if (ops := ops_for(device)) is not None]
    if found:
        return found
    raise ConfigurationError(
        f"this machine has GPUs ({', '.join(device.name for device in inventory.devices)}), but torch "
        f"{torch.__version__} sees none: install a CUDA build of torch and check CUDA_VISIBLE_DEVICES, or set devices "
        "and budget to emulate"
    )


def _slots(
    devices: Sequence[tuple[Device, DeviceOps]], services: Mapping[str, Service], paging: Paging
) -> tuple[Slot, ...]:
    whole = sum(aligned(service.nbytes) for service in services.values())
    budgets = [_budget(device, whole) for device, _ in devices]
    pagers = [Pager(device.id, budget, paging) for (device, _), budget in zip(devices, budgets, strict=True)]
    places = [
        Place(device.id, ops, ops.arena(budget), paging.overlap)
        for (device, ops), budget in zip(devices, budgets, strict=True)
    ]
    replicas = {name: service.replicas(places) for name, service in services.items()}
    slots = []
    for index, pager in enumerate(pagers):
        own = {name: paged for name, copies in replicas.items() if (paged := copies[index]) is not None}
        for name, paged in own.items():
            pager.register(name, paged)
        slots.append(Slot(pager, own, DeviceThread(pager.device, _same_threads)))
    return tuple(slots)


def _budget(device: Device, whole: int) -> int:
    """Return the arena's bytes: never more than all services take, on a real GPU never into the headroom."""
    if device.emulated:
        return device.total_bytes or whole
    if device.free_bytes is None:
        raise ConfigurationError(f"the driver does not tell how much memory of GPU {device.id} is free")
    return min(whole, max(0, device.free_bytes - HEADROOM))


def _same_threads() -> None:
    """Set the number of threads in a new thread: else its first product uses all cores, and rounds differently."""
    torch.set_num_threads(torch.get_num_threads())


def _bound_threads(threads: int | None, inventory: Inventory) -> None:
    """Calls on emulated devices compute at the same time: together they should not use more threads than cores."""
    if threads is None and inventory.source == "emulated":
        threads = max(1, (os.cpu_count() or 1) // len(inventory.devices))
    if threads is not None:
        torch.set_num_threads(threads)
