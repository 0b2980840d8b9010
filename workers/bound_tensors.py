"""A module's tensors, pointed into a buffer, and what a call did to them since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from workers.host_image import HostImage
from workers.pageable import tensors_of


@dataclass(slots=True)
class _Bound:
    """One tensor.

    Args:
        tensor: the object that the module holds.
        holder: the module's own table of parameters or buffers.
        key: in that table.
        address: of its bytes, since it was pointed there.
        version: torch's count of writes to it, at the same time.
    """

    tensor: Tensor
    holder: dict[str, Any]
    key: str
    address: int = 0
    version: int = 0

    def point(self, view: Tensor) -> None:
        """Point the tensor to these bytes, and let the module hold it."""
        self.tensor.data = view
        self.holder[self.key] = self.tensor
        self.address, self.version = self.tensor.data_ptr(), self.tensor._version

    @property
    def in_place(self) -> bool:
        """Whether the module holds it still, and it points where it did."""
        return self.holder[self.key] is self.tensor and self.tensor.data_ptr() == self.address

    @property
    def changed(self) -> bool:
        """Whether something was written to it, or instead of it. Writes through `.data` leave no trace here."""
        return not self.in_place or self.tensor._version != self.version


class BoundTensors:
    """The tensors of one module by name.

    Args:
        module: their holder.
        image: where each lies in a buffer.
    """

    def __init__(self, module: nn.Module, image: HostImage) -> None:
        self.by_name = tensors_of(module)
        self._image = image
        self._bound = {name: _bound(module, name, tensor) for name, tensor in self.by_name.items()}

    def bind(self, base: Tensor) -> None:
        """Point all of them into a buffer that holds the image's bytes, also those that a call replaced."""
        for name, view in self._image.views(base):
            self._bound[name].point(view)

    def keep(self, base: Tensor) -> str:
        """Write the mutable ones back into the image, from wherever calls have put them; returns what is wrong, or "".

        Args:
            base: the buffer that they were pointed into.
        """
        for name in sorted(self._image.mutable):
            bound, segment = self._bound[name], self._image.segments[name]
            value = bound.holder[bound.key]
            if not isinstance(value, Tensor) or (value.dtype, tuple(value.shape)) != (segment.dtype, segment.size):
                return f"{name} has another shape or type than before"
            if not bound.in_place:
                view = segment.view(base.view(segment.dtype))
                view.copy_(value)
                bound.point(view)
            self._image.store(name, bound.tensor)
        return ""

    def changed(self) -> list[str]:
        """Return those that a call changed though they are not mutable."""
        return sorted(name for name in self._bound.keys() - self._image.mutable if self._bound[name].changed)


def _bound(module: nn.Module, name: str, tensor: Tensor) -> _Bound:
    path, _, key = name.rpartition(".")
    part = module.get_submodule(path)
    holder: dict[str, Any] = part._parameters if key in part._parameters else part._buffers
    return _Bound(tensor, holder, key)
