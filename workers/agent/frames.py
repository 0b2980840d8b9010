"""The frame format between the worker and the agent.

A connection carries one request and one answer, each a frame: two lengths, a JSON header, raw bytes. Half closing
the connection cancels the request, and so does the death of the client.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Mapping  # noqa: UP035  # Python 3.8 has no generic collections.abc

FRAME = struct.Struct("!II")  # bytes of header, bytes of body
MAX_HEADER = 1 << 20
MAX_BODY = 64 << 20


class FrameTooLarge(ValueError):
    """The sender announced more than the limits allow."""


def encode(header: Mapping[str, Any], body: bytes | memoryview = b"") -> bytes:
    """Return a frame. Raises FrameTooLarge."""
    text = json.dumps(header).encode()
    _check(len(text), len(body))
    return FRAME.pack(len(text), len(body)) + text + body


def decode(received: bytearray) -> tuple[dict[str, Any], bytes] | None:
    """Return header and body once the frame is complete, None before.

    Raises FrameTooLarge as soon as the lengths are known, and ValueError if the header is not JSON.
    """
    if len(received) < FRAME.size:
        return None
    header, body = FRAME.unpack_from(received)
    _check(header, body)
    middle = FRAME.size + header
    if len(received) < middle + body:
        return None
    return json.loads(received[FRAME.size : middle]), bytes(received[middle : middle + body])


def _check(header: int, body: int) -> None:
    if header > MAX_HEADER or body > MAX_BODY:
        raise FrameTooLarge(f"a frame of {header} + {body} bytes is over {MAX_HEADER} + {MAX_BODY}")
