"""Everything that is done to the control group hierarchy: groups made and removed, values written, processes moved."""

from __future__ import annotations

import os
from pathlib import Path


def put(file: Path, value: str) -> None:
    """Write a kernel file in one call, as the kernel wants it. Raises OSError with the kernel's reason."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def move(pid: str, folder: Path) -> None:
    """Move a process into a group. Raises ProcessLookupError when it has ended, OSError otherwise."""
    (folder / "cgroup.procs").write_text(pid)


def make(folder: Path, *, exist_ok: bool = False) -> None:
    """Make a group; the kernel puts its files there. Raises OSError."""
    folder.mkdir(exist_ok=exist_ok)


def remove(folder: Path) -> None:
    """Remove a group without processes and groups below it. Raises OSError."""
    folder.rmdir()
