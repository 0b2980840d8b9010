"""What is kept of a stream that may be endless."""

from __future__ import annotations


class Output:
    """The first and the last half of what was written, together at most `cap` bytes; the middle is dropped."""

    def __init__(self, cap: int) -> None:
        self._half = max(1, cap // 2)
        self._total = 0
        self._head, self._tail = bytearray(), bytearray()

    def add(self, data: bytes) -> None:
        """Take what was read."""
        self._total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def kept(self) -> bytes:
        """Return the two halves."""
        return bytes(self._head + self._tail[-self._half :])

    @property
    def truncated(self) -> bool:
        """Whether something was dropped."""
        return self._total > 2 * self._half
