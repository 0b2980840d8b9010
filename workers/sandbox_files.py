"""Files of a sandbox, piece by piece: neither side holds more of a large one than it must."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from tangram_tasks.errors import SandboxError
from workers.agent_client import Answer

PIECE = 4 << 20  # bytes; the agent holds a few times as much, and its memory is the sandbox's

Ask = Callable[[Mapping[str, Any], bytes | memoryview], Answer]


def read_file(ask: Ask, path: str, *, offset: int, length: int | None) -> bytes:
    """Return a file's content.

    Args:
        ask: sends one request; raises whatever the agent refuses.
        path: the file.
        offset: bytes to skip.
        length: bytes to read at most; None reads to the end, as it was at the start.

    Raises:
        SandboxError: another file took its place meanwhile.
    """
    content, identity = io.BytesIO(), None
    left = PIECE if length is None else length
    while True:
        position = offset + content.tell()
        answer = ask({"op": "read", "path": path, "offset": position, "length": min(left, PIECE)}, b"")
        if identity is None:
            identity = answer.fields["identity"]
            left = answer.fields["size"] - offset if length is None else length
        elif identity != answer.fields["identity"]:
            raise SandboxError(f"{path} was replaced while it was read: read it again")
        content.write(answer.body)
        left -= len(answer.body)
        if not answer.body or left <= 0:
            return content.getvalue()


def write_file(ask: Ask, path: str, data: bytes | str, *, append: bool) -> None:
    """Write a file.

    Args:
        ask: sends one request; raises whatever the agent refuses.
        path: the file.
        data: what to write.
        append: add to its end.
    """
    left = memoryview(data.encode() if isinstance(data, str) else data)
    while True:
        ask({"op": "write", "path": path, "append": append}, left[:PIECE])
        left, append = left[PIECE:], True
        if not left:
            return
