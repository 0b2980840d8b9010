"""Virtual time: what is to be done when."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")


class Agenda:
    """A clock in ms and the steps to come; those of one moment keep the order in which they were entered."""

    def __init__(self) -> None:
        self.now = 0
        self._rows: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._ties = count()

    def at(self, when: int, step: Callable[[T], None], subject: T) -> None:
        """Call `step(subject)` at `when` ms."""
        heapq.heappush(self._rows, (when, next(self._ties), step, subject))

    def upcoming(self) -> int | None:
        """Return the ms of the next step, or None if there is none."""
        return self._rows[0][0] if self._rows else None

    def step(self) -> None:
        """Go to the moment of the next step and do it. Raises IndexError if there is none."""
        self.now, _, step, subject = heapq.heappop(self._rows)
        step(subject)
