"""A service's module on one device: its tensors point into the host image, or into a slab of the device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tangram_tasks.errors import ServiceUnavailable
from workers.bound_tensors import BoundTensors
from workers.device_ops import DeviceOps
from workers.host_image import HostImage
from workers.layers import LayeredCopy, layers_of
from workers.pageable import tensors_of


class Replica:
    """One copy of a module's structure; implements `workers.service.Paged`.

    Args:
        service: its name, for messages.
        module: the structure; its own weights are let go.
        image: its weights, shared with the replicas on other devices.
        ops: the device.
        memory: the device's arena.
        overlap: let calls start while later layers are on their way.
        on_relocate: told when the weights' addresses changed, for what remembers addresses (a CUDA graph).
    """

    def __init__(
        self,
        service: str,
        module: nn.Module,
        image: HostImage,
        ops: DeviceOps,
        memory: Tensor,
        *,
        overlap: bool = False,
        on_relocate: Callable[[nn.Module], None] | None = None,
    ) -> None:
        self.module = module
        self.nbytes = image.nbytes
        self._service = service
        self._image = image
        self._ops = ops
        self._memory = memory
        self._tensors = BoundTensors(module, image)
        self._slab: Tensor | None = None  # None is parked
        self._tensors.bind(image.buffer)
        image.followers.append(self._follow)
        self._guard = _Guard(service)
        module.register_forward_pre_hook(self._guard)
        self._layered = (
            LayeredCopy(service, layers_of(module, self._tensors.by_name, image.segments), ops) if overlap else None
        )
        self._on_relocate = on_relocate
        self._offset: int | None = None
        self.generation = 0

    @property
    def leased(self) -> bool:
        """Whether the module may run: its weights may be moved at any time outside a lease."""
        return self._guard.leased

    @leased.setter
    def leased(self, leased: bool) -> None:
        self._guard.leased = leased

    @property
    def device(self) -> torch.device:
        """Where inputs must be while it is resident."""
        return self._ops.device

    def page_in(self, offset: int) -> None:
        """One bulk copy, a sampled checksum, and re-binding. Raises ServiceUnavailable.

        With overlap it returns at once; what goes wrong later fails the call, and `settle` tells it.
        """
        slab = self._memory[offset : offset + self.nbytes]
        if self._layered is not None:
            self._layered.start(slab, self._image.hold, self._image.intact)
        else:
            with self._image.hold() as source:
                self._ops.copy(slab, source)
            if not self._image.intact(slab):
                raise ServiceUnavailable(f"the copy of service {self._service} differs from its host image")
        with self._image.lock:
            self._slab = slab
            self._tensors.bind(slab)
        self._moved_to(offset)

    def page_out(self) -> int:
        """Re-bind to the host image: `state_dict` and save keep working while it is parked."""
        if self._layered is not None:
            self._layered.finish()
        with self._image.lock:
            self._slab = None
            self._tensors.bind(self._image.buffer)
        return 0

    def settle(self) -> str:
        """Keep declared buffers, and look for other changes. See `Paged`.

        A write through `.data` leaves no trace in torch: it is found by its bytes, in one block of the image per use
        in turn. So it is found at once in a small model, and after some uses in a large one.
        """
        problem = self._layered.finish() if self._layered is not None else ""
        if problem or self._slab is None:
            return problem
        problem = self._tensors.keep(self._slab)
        if problem:
            return f"service {self._service}: {problem}"
        changed = self._tensors.changed()
        if changed:
            return f"service {self._service} changed {', '.join(changed)} in a call: declare it mutable to keep changes"
        if self._image.intact(self._slab, blocks=1):
            return ""
        return f"service {self._service} changed weights in a call, through .data or outside of torch"

    def _follow(self) -> None:
        """The image's bytes lie elsewhere now."""
        if self._slab is None:
            self._tensors.bind(self._image.buffer)

    def _moved_to(self, offset: int) -> None:
        if offset == self._offset:
            return
        self.generation += 1
        if self._on_relocate is not None:
            self._on_relocate(self.module)
        self._offset = offset  # not before: who could not follow is told again


class _Guard:
    """Refuses forward passes outside a lease. It does not know its replica, so that no cycle keeps an arena alive."""

    def __init__(self, service: str) -> None:
        self.leased = False
        self._service = service

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not self.leased:
            raise ServiceUnavailable(f"service {self._service} was run outside a lease: call it through its lease only")


def clone(module: nn.Module) -> nn.Module:
    """Return a copy of the module's structure that shares the weights' bytes."""
    memo: dict[int, Any] = {}
    for tensor in tensors_of(module).values():
        shared = tensor.detach()
        memo[id(tensor)] = nn.Parameter(shared, requires_grad=False) if isinstance(tensor, nn.Parameter) else shared
    return copy.deepcopy(module, memo)
