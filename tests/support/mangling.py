"""Damage done to a message: what a broken publisher, a bad disk or somebody hostile could put on the admission list."""

from __future__ import annotations

import json
import random
from typing import Any

#: Values put where another one stood.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**63, 1e308, "", "x", "\x00", "ü" * 50, "9" * 5000, "NaN", [], [[]], {}, {"a": {}},
    [None, None], "\ud800", "2020-01-01T00:00:00", "not a date", "base64", "application/x-python-serialize",
)  # fmt: skip


def mangle(raw: str, rng: random.Random) -> bytes:
    """Return the message with one to three faults, in its text or in its structure."""
    damaged = raw.encode()
    for _ in range(rng.randint(1, 3)):
        damaged = _bytes(damaged, rng) if rng.random() < 0.3 else _structure(damaged, rng)
    return damaged


def _bytes(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    at, kind = rng.randrange(len(data)), rng.randrange(5)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at:]
    end = min(len(data), at + rng.randint(1, 64))
    return data[:at] + data[end:] if kind == 3 else data[:end] + data[at:]


def _structure(data: bytes, rng: random.Random) -> bytes:
    try:
        content = json.loads(data)
    except ValueError:
        return _bytes(data, rng)
    holders = list(_holders(content))
    if not holders:
        return _bytes(data, rng)
    holder, key = rng.choice(holders)
    kind = rng.randrange(4)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[rng.choice(("tangram", "tangram_grant", "chord", "group", "eta", "expires", "odd"))] = rng.choice(ODD)
    else:
        holder[key] = rng.choice(ODD)
    return json.dumps(content).encode()


def _holders(value: Any) -> Any:
    """Yield every (object or list, key or index) of a document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield value, key
            yield from _holders(inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield value, index
            yield from _holders(inner)
