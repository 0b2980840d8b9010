"""Bytes on disk that are read where they are needed."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path

import torch
from torch import Tensor


def mapped_copy(source: Tensor, folder: Path) -> Tensor:
    """Return a copy of flat bytes that lies in a file without a name and takes memory only as far as it is read.

    Args:
        source: flat uint8.
        folder: on the disk to use; made when needed.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(source.numpy())  # type: ignore[arg-type]  # numpy arrays are buffers
        file.flush()
        mapping = mmap.mmap(file.fileno(), source.numel(), access=mmap.ACCESS_COPY)
    return torch.frombuffer(mapping, dtype=torch.uint8)
