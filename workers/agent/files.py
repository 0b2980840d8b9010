"""Reading and writing files of the sandbox, without ever waiting for one."""

from __future__ import annotations

import errno
import os
import stat

from workers.agent.frames import MAX_BODY
from workers.agent.purge import purge
from workers.agent.tree import pack, unpack

_CAREFUL = os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not hold up the agent


def read(path: str, _body: bytes) -> bytes:
    """Return a file's content. Raises OSError, also for what is no regular file or over MAX_BODY bytes."""
    descriptor = os.open(path, os.O_RDONLY | _CAREFUL)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        if info.st_size > MAX_BODY:
            raise OSError(errno.EFBIG, f"larger than {MAX_BODY} bytes", path)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BODY)
    finally:
        os.close(descriptor)


def write(path: str, body: bytes) -> bytes:
    """Create or replace a file, with its folders. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CAREFUL, 0o666), "wb") as file:
        file.write(body)
    return b""


def ping(_path: str, _body: bytes) -> bytes:
    """Answer, to say that the agent is there."""
    return b""


OPERATIONS = {"read": read, "write": write, "ping": ping, "pack": pack, "unpack": unpack, "purge": purge}
