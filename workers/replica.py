"""A service's module on one device: its tensors point into the host image, or into a slab of the device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tangram_tasks.errors import ServiceUnavailable
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
        self._tensors = tensors_of(module)
        self._versions: dict[str, int] = {}
        self._parked = True
        self._bind(image.buffer)
        image.followers.append(self._follow)
        self._guard = _Guard(service)
        module.register_forward_pre_hook(self._guard)
        self._layered = LayeredCopy(service, layers_of(module, self._tensors, image.segments), ops) if overlap else None
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
            self._parked = False
            self._bind(slab)
        self._moved_to(offset)

    def page_out(self) -> int:
        """Re-bind to the host image: `state_dict` and save keep working while it is parked."""
        if self._layered is not None:
            self._layered.finish()
        with self._image.lock:
            self._parked = True
            self._bind(self._image.buffer)
        return 0

    def settle(self) -> str:
        """Keep changes of declared buffers. See `Paged`; writes through `.data` are not noticed."""
        problem = self._layered.finish() if self._layered is not None else ""
        if problem:
            return problem
        changed = {name for name, tensor in self._tensors.items() if tensor._version != self._versions[name]}
        for name in changed & self._image.mutable:
            self._image.store(name, self._tensors[name])
            self._versions[name] = self._tensors[name]._version
        undeclared = sorted(changed - self._image.mutable)
        if not undeclared:
            return ""
        return f"service {self._service} changed {', '.join(undeclared)} in a call: declare it mutable to keep changes"

    def _follow(self) -> None:
        """The image's bytes lie elsewhere now."""
        if self._parked:
            self._bind(self._image.buffer)

    def _moved_to(self, offset: int) -> None:
        if offset == self._offset:
            return
        self._offset = offset
        self.generation += 1
        if self._on_relocate is not None:
            self._on_relocate(self.module)

    def _bind(self, base: Tensor) -> None:
        for name, view in self._image.views(base):
            tensor = self._tensors[name]
            tensor.data = view
            self._versions[name] = tensor._version


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
