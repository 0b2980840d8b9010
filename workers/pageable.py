"""Which tensors make up a module, and which modules cannot be paged.

A module is paged by moving the bytes of its parameters and buffers. Whatever keeps weights elsewhere would be
accepted silently and stay behind, so it is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tangram_tasks.errors import ConfigurationError


class NotPageable(ConfigurationError):
    """This module keeps weights where paging does not reach them. The message names the place."""


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return its parameters and buffers by name, each once: a tied weight has one entry.

    Raises NotPageable.
    """
    if module.training:
        raise NotPageable("the module is in training mode, where calls may change its buffers: call .eval() first")
    for path, part in module.named_modules():
        _check_part(path or "the module", part)
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, tensor in named.items():
        _check_tensor(name, tensor)
    if not any(tensor.numel() for tensor in named.values()):
        raise NotPageable("the module has no parameters or buffers with bytes: its weights are kept elsewhere")
    return named


def _check_part(path: str, part: nn.Module) -> None:
    if isinstance(part, torch.jit.ScriptModule):
        raise NotPageable(f"{path} is a TorchScript module: its weights cannot be re-pointed")
    for name, value in vars(part).items():
        if name in ("_parameters", "_buffers", "_modules"):
            continue
        for item in _items(value):
            if isinstance(item, torch.ScriptObject):
                raise NotPageable(
                    f"{path}.{name} is packed inside torch ({type(part).__name__}), as in quantize_dynamic"
                )
            if isinstance(item, Tensor):
                raise NotPageable(
                    f"{path}.{name} is a plain tensor attribute: make it a parameter or register_buffer it"
                )


def _check_tensor(name: str, tensor: Tensor) -> None:
    if type(tensor) not in (Tensor, nn.Parameter):
        raise NotPageable(f"{name} is a {type(tensor).__name__}, a tensor subclass with insides of its own")
    if tensor.is_meta:
        raise NotPageable(f"{name} is on the meta device: load its weights first")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        raise NotPageable(f"{name} is not a plain strided tensor ({tensor.layout}, {tensor.dtype})")
    for attribute, value in vars(tensor).items():
        if any(isinstance(item, Tensor) for item in _items(value)):
            raise NotPageable(f"{name}.{attribute} is a tensor that hangs on a parameter (bitsandbytes does that)")


def _items(value: Any) -> Iterator[Any]:
    """Yield the value and, of a container, what is directly in it."""
    yield value
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value
