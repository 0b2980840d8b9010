"""A node's devices as torch sees them; only nodes with services in their process need it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from tangram_tasks.errors import ConfigurationError
from workers.device_ops import DeviceOps, ops_for
from workers.devices import Device, Inventory


def torch_devices(inventory: Inventory, threads: int | None) -> Sequence[tuple[Device, DeviceOps]]:
    """Return the devices that torch sees, and bound the CPU threads of a call. Raises ConfigurationError if none."""
    found = [(device, ops) for device in inventory.devices if (ops := ops_for(device)) is not None]
    if not found:
        raise ConfigurationError(
            f"this machine has GPUs ({', '.join(device.name for device in inventory.devices)}), but torch "
            f"{torch.__version__} sees none: install a CUDA build of torch and check CUDA_VISIBLE_DEVICES, or set "
            "devices and budget to emulate"
        )
    _bound_threads(threads, inventory)
    return found


def same_threads() -> None:
    """Set the number of threads in a new thread: else its first product uses all cores, and rounds differently."""
    torch.set_num_threads(torch.get_num_threads())


def _bound_threads(threads: int | None, inventory: Inventory) -> None:
    """Calls on emulated devices compute at the same time: together they should not use more threads than cores."""
    if threads is None and inventory.source == "emulated":
        threads = max(1, (os.cpu_count() or 1) // len(inventory.devices))
    if threads is not None:
        torch.set_num_threads(threads)
