"""Label values from outside, bounded: a series per value stays for the life of the process."""

from __future__ import annotations

OTHER = "other"


class LabelSet:
    """Lets the first so many values through; every further one becomes "other".

    Args:
        limit: how many.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """Return the value to use as a label."""
        if value in self._known:
            return value
        if len(self._known) >= self._limit:
            return OTHER
        self._known.add(value)
        return value
