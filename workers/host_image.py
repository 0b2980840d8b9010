"""The host image: all bytes of a service's weights in one flat buffer, built once.

It is laid out by storage extents, not by tensors: overlapping views (tied weights, q/k/v slices of one matrix,
transposes) share their bytes in the image as they did in the module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor, nn

from workers.arena import ALIGNMENT, aligned
from workers.device_ops import DeviceOps
from workers.mapped import mapped_copy
from workers.pageable import NotPageable, tensors_of

#: Bytes per checksum, a multiple of the alignment.
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """Where one tensor lies in the image, and how it is read.

    Args:
        offset: byte of its first element.
        nbytes: from there to the end of its last element.
        dtype: of its elements.
        size: its shape.
        stride: in elements.
    """

    offset: int
    nbytes: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def view(self, typed: Tensor) -> Tensor:
        """Return the tensor as a view of a buffer that holds the image's bytes and is itself viewed as `dtype`."""
        first = int(typed.storage_offset()) + self.offset // self.dtype.itemsize
        return typed.as_strided(self.size, self.stride, first)


class HostImage:
    """The weights of one service in host memory, shared by its replicas on all devices.

    Args:
        buffer: flat uint8 of exactly the image's length.
        segments: by tensor name.
        mutable: names of buffers that calls may change.
        ops: allocated the buffer.
    """

    def __init__(
        self, buffer: Tensor, segments: Mapping[str, Segment], mutable: frozenset[str], ops: DeviceOps
    ) -> None:
        self.buffer = buffer
        self.segments = segments
        self.mutable = mutable
        self.nbytes = buffer.numel()
        #: Held while replicas are bound to the buffer, or it is exchanged.
        self.lock = threading.RLock()
        #: Called when the buffer was exchanged.
        self.followers: list[Callable[[], None]] = []
        #: Yields the buffer, which is not exchanged for the length of the context.
        self.hold: Callable[[], AbstractContextManager[Tensor]] = lambda: nullcontext(self.buffer)
        self._ops = ops
        self._file: Tensor | None = None
        self._sums = [self._sum(buffer, block) for block in range(-(-self.nbytes // BLOCK))]
        self._next = 0

    @classmethod
    def from_module(cls, module: nn.Module, ops: DeviceOps, *, mutable: Iterable[str] = ()) -> HostImage:
        """Copy a module's weights into a new image. The module is not changed.

        Args:
            module: in eval mode, with its weights loaded.
            ops: allocates the buffer.
            mutable: names of buffers that calls may change and whose changes must last.

        Raises NotPageable.
        """
        tensors = tensors_of(module)
        unknown = set(mutable) - set(tensors)
        if unknown:
            raise NotPageable(f"declared mutable, but not in the module: {', '.join(sorted(unknown))}")
        segments, extents, nbytes = _layout(tensors)
        buffer = ops.host_buffer(nbytes).fill_(0)
        for offset, source in extents:
            buffer[offset : offset + source.numel()].copy_(source)
        return cls(buffer, segments, frozenset(mutable), ops)

    @property
    def spilled(self) -> bool:
        """Whether it has a copy on disk."""
        return self._file is not None

    @property
    def cold(self) -> bool:
        """Whether it is on disk only."""
        return self.buffer is self._file

    def spill(self, folder: Path) -> None:
        """Write a copy to disk, once. An image with mutable buffers stays in memory. Raises OSError."""
        if self._file is None and not self.mutable:
            self._file = mapped_copy(self.buffer, folder)

    def cool(self) -> None:
        """Give the memory back; the bytes are read from disk where they are needed."""
        if self._file is not None and not self.cold:
            self._exchange(self._file)

    def warm(self) -> None:
        """Read a cold image into memory."""
        self._exchange(self._ops.host_buffer(self.nbytes).copy_(self.buffer))

    def free(self) -> None:
        """Give its memory back for good."""
        if not self.cold:
            self._ops.free_host(self.buffer)

    def _exchange(self, buffer: Tensor) -> None:
        with self.lock:
            self.free()
            self.buffer = buffer
            for follow in self.followers:
                follow()

    def views(self, base: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield each tensor's name and the tensor as a view of a buffer that holds the image's bytes."""
        typed = {dtype: base.view(dtype) for dtype in {segment.dtype for segment in self.segments.values()}}
        for name, segment in self.segments.items():
            yield name, segment.view(typed[segment.dtype])

    def intact(self, base: Tensor, *, blocks: int | None = 4) -> bool:
        """Whether a buffer holds the image's bytes, by the sums of the next few blocks, or of all (None).

        A sum is computed where the bytes are; only eight bytes per block come back over the link.
        """
        count = len(self._sums)
        first, self._next = self._next, (self._next + (blocks or 0)) % count
        chosen = range(count) if blocks is None else ((first + step) % count for step in range(min(blocks, count)))
        return all(self._sum(base, block) == self._sums[block] for block in chosen)

    def store(self, name: str, value: Tensor) -> None:
        """Keep a changed buffer's value."""
        segment = self.segments[name]
        segment.view(self.buffer.view(segment.dtype)).copy_(value)
        for block in range(segment.offset // BLOCK, -(-(segment.offset + segment.nbytes) // BLOCK)):
            self._sums[block] = self._sum(self.buffer, block)

    @staticmethod
    def _sum(base: Tensor, block: int) -> int:
        return int(base[block * BLOCK : (block + 1) * BLOCK].view(torch.int64).sum())


def _layout(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Segment], list[tuple[int, Tensor]], int]:
    """Return the segment of each tensor, the extents as (offset in the image, bytes to copy), and the total."""
    first: dict[int, int] = {}  # by storage: the order of first use, in which a layered page-in copies
    for tensor in tensors.values():
        first.setdefault(tensor.untyped_storage().data_ptr(), len(first))
    spans = [(*_span(tensor), name) for name, tensor in tensors.items()]
    spans.sort(key=lambda span: (first[span[0]], *span))
    segments: dict[str, Segment] = {}
    extents: list[tuple[int, Tensor]] = []
    total = 0
    for _storage, group in groupby(spans, key=lambda span: span[0]):
        end = -1
        for _, start, stop, name in group:
            floor = start // ALIGNMENT * ALIGNMENT  # keeps each tensor's alignment within its extent
            if floor >= end:  # a new extent
                origin, base, end = floor, total, floor
            if stop > end:
                extents.append((base + end - origin, _storage_bytes(tensors[name], end, stop)))
                end = stop
                total = aligned(base + end - origin)
            tensor = tensors[name]
            segments[name] = Segment(
                base + start - origin, stop - start, tensor.dtype, tuple(tensor.shape), tensor.stride()
            )
    return segments, extents, total


def _span(tensor: Tensor) -> tuple[int, int, int]:
    """Return the storage's address and the bytes in it, [start, stop), that the tensor reaches."""
    start = int(tensor.storage_offset()) * tensor.itemsize
    if tensor.numel() == 0:
        return tensor.untyped_storage().data_ptr(), start, start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.untyped_storage().data_ptr(), start, start + (last + 1) * tensor.itemsize


def _storage_bytes(tensor: Tensor, start: int, stop: int) -> Tensor:
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    return whole[start:stop]
