"""How bytes are held and moved on a device: CPU (emulated devices) or CUDA. Chosen once per device.

The CUDA side has not run on a GPU yet; it follows the CUDA runtime and torch documentation.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Protocol

import torch
from torch import Tensor

from workers.arena import ALIGNMENT
from workers.devices import Device

logger = logging.getLogger(__name__)

#: cudaHostRegisterPortable: pinned for every device's context, not only the current one's.
_PORTABLE = 1


class DeviceOps(Protocol):
    """Memory and copies of one device. Buffers are flat, of dtype uint8, and start on the alignment."""

    device: torch.device

    def arena(self, nbytes: int) -> Tensor:
        """Return device memory that is really there, so that no page fault falls into a page-in."""

    def host_buffer(self, nbytes: int) -> Tensor:
        """Return host memory that copies to this device fast."""

    def free_host(self, buffer: Tensor) -> None:
        """Take back what `host_buffer` did to the buffer beyond allocating it."""

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Copy host bytes to the device; on return kernels that start later see them."""


class CpuOps:
    """An emulated device: its memory is ordinary memory.

    Args:
        link_gbps: pace of copies to the device in 10^9 bytes per second; None copies as fast as memory allows.
    """

    def __init__(self, link_gbps: float | None = None) -> None:
        self.device = torch.device("cpu")
        self._link_gbps = link_gbps

    def arena(self, nbytes: int) -> Tensor:
        """Return memory whose pages were all touched: a first touch makes a copy 7 times as long (measured)."""
        return _flat(nbytes, self.device).fill_(0)

    def host_buffer(self, nbytes: int) -> Tensor:
        """Return plain memory: without an accelerator nothing can be pinned."""
        return _flat(nbytes, self.device)

    def free_host(self, buffer: Tensor) -> None:
        """Nothing to take back."""

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Copy, then wait until a link of that pace would be done."""
        started = time.monotonic()
        target.copy_(source)
        if self._link_gbps is not None:
            left = source.numel() / (self._link_gbps * 1e9) - (time.monotonic() - started)
            time.sleep(max(0.0, left))


class CudaOps:
    """A CUDA device.

    Args:
        device: for example `torch.device("cuda", 0)`.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's

    def arena(self, nbytes: int) -> Tensor:
        """Return one block of device memory; the driver backs it at once."""
        return _flat(nbytes, self.device)

    def host_buffer(self, nbytes: int) -> Tensor:
        """Return memory pinned in place, at its exact size: torch's own pinned allocator rounds to a power of two."""
        buffer = _flat(nbytes, torch.device("cpu")).fill_(0)
        code = int(_cudart().cudaHostRegister(buffer.data_ptr(), nbytes, _PORTABLE))
        if code:
            logger.warning("%d bytes could not be pinned (CUDA error %d): page-ins will be slower", nbytes, code)
        return buffer

    def free_host(self, buffer: Tensor) -> None:
        """Unpin. A buffer that could not be pinned is left as it is."""
        code = int(_cudart().cudaHostUnregister(buffer.data_ptr()))
        if code:
            logger.warning("the host image at %#x was not unpinned (CUDA error %d)", buffer.data_ptr(), code)

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Copy on an own stream, behind all kernels that may still use the bytes that `target` held before."""
        self._stream.wait_stream(torch.cuda.default_stream(self.device))
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
            done = self._stream.record_event()
        done.synchronize()


def ops_for(device: Device) -> DeviceOps | None:
    """Return the operations of a device; None if torch does not see it (a CPU build, or CUDA_VISIBLE_DEVICES)."""
    if device.emulated:
        return CpuOps(device.link_gbps)
    for index in range(torch.cuda.device_count()):
        if device.id.endswith(str(torch.cuda.get_device_properties(index).uuid)):
            return CudaOps(torch.device("cuda", index))
    return None


def _cudart() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch's


def _flat(nbytes: int, device: torch.device) -> Tensor:
    raw = torch.empty(nbytes + ALIGNMENT, dtype=torch.uint8, device=device)
    skip = -raw.data_ptr() % ALIGNMENT
    return raw[skip : skip + nbytes]
