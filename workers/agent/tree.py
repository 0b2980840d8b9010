"""A folder's content as a row of records, piece by piece, and back.

A record is a line of JSON and, for a file, bytes. Where a piece ended is told by a cursor: the entry's path and how
much of it went. Paths are walked in the order of their parts, so that a cursor stays good while files come and go.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import Any, Iterator  # noqa: UP035  # Python 3.8 has no generic collections.abc

PIECE = 4 << 20
_CAREFUL = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


def pack(folder: str, body: bytes) -> bytes:
    """Return the next cursor, as a line of JSON that says null at the end, and the records of this piece.

    Args:
        folder: what to pack.
        body: the cursor; an empty object at the beginning.
    """
    cursor = json.loads(body)
    after, offset = tuple(cursor.get("parts", ())), int(cursor.get("offset", 0))
    out = bytearray()
    for parts in _walk(folder):
        if parts < after or (parts == after and not offset):
            continue
        with contextlib.suppress(OSError):  # it went meanwhile, or is not ours to read
            offset = _record(folder, parts, offset if parts == after else 0, out)
            if len(out) >= PIECE:
                return json.dumps({"parts": parts, "offset": offset}).encode() + b"\n" + bytes(out)
    return b"null\n" + bytes(out)


def unpack(folder: str, body: bytes) -> bytes:
    """Make what the records say below the folder. Raises OSError, ValueError."""
    view, at = memoryview(body), 0
    while at < len(body):
        end = body.index(b"\n", at)
        record = json.loads(body[at:end])
        at = end + 1 + record["size"]
        _make(os.path.join(folder, *record["parts"]), record, view[end + 1 : at])
    return b""


def _walk(folder: str) -> Iterator[tuple[str, ...]]:
    stack: list[tuple[str, ...]] = [()]
    while stack:
        parts = stack.pop()
        if parts:
            yield parts
        path = os.path.join(folder, *parts)
        if not os.path.islink(path) and os.path.isdir(path):
            with contextlib.suppress(OSError):  # it went meanwhile, or is not ours to look into
                stack += [(*parts, name) for name in sorted(os.listdir(path), reverse=True)]


def _record(folder: str, parts: tuple[str, ...], offset: int, out: bytearray) -> int:
    """Append an entry, or of a file what fits. Returns where to go on in the file, 0 when it is complete."""
    path = os.path.join(folder, *parts)
    info = os.lstat(path)
    fields: dict[str, Any] = {"parts": parts, "mode": stat.S_IMODE(info.st_mode), "time": info.st_mtime_ns, "size": 0}
    if stat.S_ISLNK(info.st_mode):
        fields.update(kind="link", target=os.readlink(path))
    elif stat.S_ISDIR(info.st_mode):
        fields.update(kind="folder")
    elif stat.S_ISREG(info.st_mode):
        with open(os.open(path, os.O_RDONLY | _CAREFUL), "rb") as file:
            file.seek(offset)
            data = file.read(max(1, PIECE - len(out)))
            more = bool(data) and offset + len(data) < info.st_size
        fields.update(kind="file", size=len(data), offset=offset, more=more)
        out += json.dumps(fields).encode() + b"\n" + data
        return offset + len(data) if more else 0
    else:
        return 0
    out += json.dumps(fields).encode() + b"\n"
    return 0


def _make(path: str, record: dict[str, Any], data: memoryview) -> None:
    if record["kind"] == "folder":
        os.makedirs(path, exist_ok=True)
        os.chmod(path, record["mode"] | stat.S_IRWXU)
    elif record["kind"] == "link":
        os.symlink(record["target"], path)
    else:
        fresh = 0 if record["offset"] else os.O_TRUNC
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | fresh | _CAREFUL, 0o600), "wb") as file:
            file.seek(record["offset"])
            file.write(data)
            if not record["more"]:
                os.fchmod(file.fileno(), record["mode"])
        if not record["more"]:
            os.utime(path, ns=(record["time"], record["time"]))
