"""A module's weights by layer, in the order of first use, and copying them to a device layer by layer.

A forward pass starts as soon as the first layers are there: each layer waits for its own bytes only. Works for models
that use a layer's weights inside that layer's forward only, as transformers do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from tangram_tasks.errors import ServiceUnavailable
from workers.arena import ALIGNMENT, aligned
from workers.device_ops import DeviceOps
from workers.host_image import Segment

#: Seconds that a layer waits for its bytes at most.
PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Layer:
    """What is copied together.

    Args:
        module: whose forward needs it.
        extents: runs of bytes, [start, stop).
    """

    module: nn.Module
    extents: tuple[tuple[int, int], ...]


def layers_of(module: nn.Module, tensors: Mapping[str, Tensor], segments: Mapping[str, Segment]) -> tuple[Layer, ...]:
    """Return what lies outside of the layers first, then each of them; all as one if the module has no layers."""
    owners = _stack(module)
    of_tensor = {id(tensor): at for at, part in enumerate(owners, 1) for tensor in _tensors(part)}
    shared = {id(tensor) for tensor in _outside(module, owners)}
    groups: list[list[Segment]] = [[] for _ in range(len(owners) + 1)]
    for name, tensor in tensors.items():
        groups[0 if id(tensor) in shared else of_tensor.get(id(tensor), 0)].append(segments[name])
    return tuple(Layer(part, _runs(group)) for part, group in zip([module, *owners], groups, strict=True))


class LayeredCopy:
    """Brings layers to a device in a thread while the module may run already; its hooks make it wait where it must.

    Args:
        service: its name, for messages.
        layers: in the order of use.
        ops: the device.
    """

    def __init__(self, service: str, layers: Sequence[Layer], ops: DeviceOps) -> None:
        self._service = service
        self._layers = layers
        self._ops = ops
        self._there = [threading.Event() for _ in layers]
        self._thread: threading.Thread | None = None
        self._problem = ""
        for layer, there in zip(layers, self._there, strict=True):
            layer.module.register_forward_pre_hook(_Wait(self, there))

    def start(
        self, slab: Tensor, hold: Callable[[], AbstractContextManager[Tensor]], check: Callable[[Tensor], bool]
    ) -> None:
        """Begin.

        Args:
            slab: where to.
            hold: yields the bytes to copy.
            check: is asked about the slab when all is there.
        """
        self._problem = ""
        for there in self._there:
            there.clear()
        self._thread = threading.Thread(target=self._run, args=(slab, hold, check), name="page-in", daemon=True)
        self._thread.start()

    def wait(self, there: threading.Event) -> None:
        """Wait for a layer. Raises ServiceUnavailable if it does not come."""
        if not there.wait(PATIENCE):
            self._problem = self._problem or f"a layer did not arrive within {PATIENCE:g} s"
        if self._problem:
            raise ServiceUnavailable(f"service {self._service}: {self._problem}")

    def finish(self) -> str:
        """Wait until all is there; return what went wrong, or ""."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self._problem

    def _run(
        self, slab: Tensor, hold: Callable[[], AbstractContextManager[Tensor]], check: Callable[[Tensor], bool]
    ) -> None:
        try:
            with hold() as source:
                for layer, there in zip(self._layers, self._there, strict=True):
                    for start, stop in layer.extents:
                        self._ops.copy(slab[start:stop], source[start:stop])
                    there.set()
            if not check(slab):
                self._problem = f"the copy of service {self._service} differs from its host image"
        except Exception as error:  # noqa: BLE001  # told to whoever waits for a layer
            self._problem = f"page-in: {error}"
        finally:
            for there in self._there:
                there.set()


class _Wait:
    """Makes one layer wait for its bytes."""

    def __init__(self, copy: LayeredCopy, there: threading.Event) -> None:
        self._copy, self._there = copy, there

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self._copy.wait(self._there)


def _stack(module: nn.Module) -> list[nn.Module]:
    """Return the layers: the members of the longest ModuleList or Sequential."""
    lists = [part for part in module.modules() if isinstance(part, nn.ModuleList | nn.Sequential)]
    return list(max(lists, key=len)) if lists else []


def _tensors(part: nn.Module) -> list[Tensor]:
    return [*part.parameters(), *part.buffers()]


def _outside(module: nn.Module, owners: Sequence[nn.Module]) -> list[Tensor]:
    """Return tensors that some part outside of the layers holds, or several layers do: none of these can wait."""
    inside = {id(part) for owner in owners for part in owner.modules()}
    found = [tensor for part in module.modules() if id(part) not in inside for tensor in _own(part)]
    seen: set[int] = set()
    for owner in owners:
        mine = _tensors(owner)
        found += [tensor for tensor in mine if id(tensor) in seen]
        seen |= {id(tensor) for tensor in mine}
    return found


def _own(part: nn.Module) -> list[Tensor]:
    return [*part.parameters(recurse=False), *part.buffers(recurse=False)]


def _runs(segments: Sequence[Segment]) -> tuple[tuple[int, int], ...]:
    """Return the bytes of the segments with the padding around them, as few runs as possible."""
    runs: list[tuple[int, int]] = []
    for segment in sorted(segments, key=lambda one: one.offset):
        start, stop = segment.offset // ALIGNMENT * ALIGNMENT, aligned(segment.offset + segment.nbytes)
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(stop, runs[-1][1]))
        else:
            runs.append((start, stop))
    return tuple(runs)
