"""One action between submission and end: what it holds, and how much of it is left."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compose.simulate.work import Work


class Execution:
    """The progress of one action.

    Work is a share, 1 at the start; with m units it shrinks by 1 / duration(m) per ms. A resize therefore lets the
    rest go on at the new speed. Units count as held from the grant to the end, overhead included.

    Args:
        name: the action's id.
        work: what it is.
        owner: the place of its trajectory in the workload.
        arrival: when it was submitted, ms.
    """

    __slots__ = (
        "_changed",
        "_left",
        "_since",
        "arrival",
        "began",
        "granted",
        "held",
        "name",
        "node",
        "owner",
        "units",
        "version",
        "work",
    )

    def __init__(self, name: str, work: Work, owner: int, arrival: int) -> None:
        self.name = name
        self.work = work
        self.owner = owner
        self.arrival = arrival
        self.node = ""
        self.units = 0
        self.granted = 0
        self.began = 0
        self.held = 0
        self.version = 0
        self._left = 1.0
        self._since = 0
        self._changed = 0

    def grant(self, now: int, node: str, units: int) -> None:
        """Hold `units` on `node` from `now` ms on."""
        self.node, self.units = node, units
        self.granted = self._changed = now

    def begin(self, at: int) -> int:
        """Let the body start at `at` ms, after the overhead. Returns when it ends if nothing changes."""
        self.began = self._since = at
        return at + self.work.duration(self.units)

    def resize(self, now: int, units: int) -> int:
        """Go on with other units. Returns the new end in ms; the old one no longer counts (`version` has changed)."""
        if now > self._since:
            self._left = max(0.0, self._left - (now - self._since) / self.work.duration(self.units))
            self._since = now
        self._account(now)
        self.units = units
        self.version += 1
        return self._since + ceil(self._left * self.work.duration(units))

    def end(self, now: int) -> None:
        """Hold its units up to `now` ms only."""
        self._account(now)

    def _account(self, now: int) -> None:
        self.held += self.units * (now - self._changed)
        self._changed = now
