"""Copies the files of one sandbox into another, in pieces, so that neither the node nor an agent holds all of them."""

from __future__ import annotations

import contextlib
import time

from tangram_tasks.errors import SandboxError
from workers import isolation
from workers.agent_client import Answer
from workers.live_sandbox import LiveSandbox

PIECE = 4 << 20  # bytes
COPY_TIME = 300.0  # s for all of it
#: Where a sandbox can have written anything: the rest of its file system is read-only.
FOLDERS = (isolation.WORK, "/tmp")


def copy_files(source: LiveSandbox, target: LiveSandbox) -> int:
    """Copy the work folder and /tmp. Returns how many bytes went over.

    Files, folders and symbolic links are copied with their modes; folders stay writable for their owner. What the
    sandbox's user cannot read is left out, as are sockets and pipes.

    Raises:
        SandboxError: one of the two is gone, the target is full, or it took too long.
    """
    give_up = time.monotonic() + COPY_TIME
    copied = 0
    with contextlib.ExitStack() as boosts:
        for sandbox in (source, target):
            boosts.enter_context(sandbox.boosted())
        for folder in FOLDERS:
            cursor = b"{}"
            while cursor != b"null":
                if time.monotonic() > give_up:
                    raise SandboxError(f"copying took over {COPY_TIME:g} s after {copied} bytes: fork less")
                answer = _ask(source, {"op": "pack", "path": folder, "piece": PIECE}, cursor)
                cursor, _, records = answer.body.partition(b"\n")
                _ask(target, {"op": "unpack", "path": folder}, records)
                copied += len(records)
    return copied


def _ask(sandbox: LiveSandbox, header: dict[str, object], body: bytes) -> Answer:
    answer = sandbox.client.ask(header, body)
    if "error" in answer.fields:
        raise SandboxError(f"the files of a sandbox cannot be copied: {answer.fields.get('message')}")
    return answer
