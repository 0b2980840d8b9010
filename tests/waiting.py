"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def wait_until(condition: Callable[[], bool], what: str, limit: float = 20.0) -> None:
    """Wait until a condition holds. Raises AssertionError saying what did not happen within `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {limit:g} s"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
