"""Reading and writing files of the sandbox piece by piece, without ever waiting for one."""

from __future__ import annotations

import errno
import os
import stat
from typing import Any, Callable, Dict, Tuple  # noqa: UP035  # Python 3.8 has no generic collections.abc

from workers.agent.frames import MAX_BODY
from workers.agent.purge import purge
from workers.agent.tree import pack, unpack

#: Path, header and body of a request, to the fields and the body of its answer.
Operation = Callable[[str, Dict[str, Any], bytes], Tuple[Dict[str, Any], bytes]]  # noqa: UP006  # for Python 3.8

_CAREFUL = os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not hold up the agent


def read(path: str, header: dict[str, Any], _body: bytes) -> tuple[dict[str, Any], bytes]:
    """Return a piece of a file: `length` bytes at most from `offset` on; and the size and identity of the file.

    Raises OSError, also for what is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | _CAREFUL)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        piece = os.pread(descriptor, min(int(header["length"]), MAX_BODY), int(header["offset"]))
        return {"size": info.st_size, "identity": info.st_ino}, piece
    finally:
        os.close(descriptor)


def write(path: str, header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
    """Create or replace a file, with its folders, or add to its end if `append` is set. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    how = os.O_APPEND if header.get("append") else os.O_TRUNC
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | how | _CAREFUL, 0o666), "wb") as file:
        file.write(body)
    return {}, b""


def ping(_path: str, _header: dict[str, Any], _body: bytes) -> tuple[dict[str, Any], bytes]:
    """Answer, to say that the agent is there."""
    return {}, b""


def _plain(operation: Callable[[str, bytes], bytes]) -> Operation:
    return lambda path, _header, body: ({}, operation(path, body))


OPERATIONS: dict[str, Operation] = {
    "read": read,
    "write": write,
    "ping": ping,
    "pack": _plain(pack),
    "unpack": _plain(unpack),
    "purge": _plain(purge),
}
