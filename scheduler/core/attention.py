"""Which domains need a look: those in which something happened, and those whose moment has come.

An event touches one domain or two. Asking every domain at every event would cost more, the more there are.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Generic, Protocol, TypeVar

#: The order in which domains decide that need a look at the same time: pool by pool, then first joined, first served.
POOLS = ("cpu", "gpu", "api")

Place = tuple[int, int]


class Watched(Protocol):
    """What must be known of a domain."""

    place: Place


W = TypeVar("W", bound=Watched)


class Attention(Generic[W]):
    """Domains to look at."""

    def __init__(self) -> None:
        self._serials = count()
        self._known: set[Place] = set()
        self._touched: dict[Place, W] = {}
        self._moments: dict[Place, int] = {}
        self._heap: list[tuple[int, Place, W]] = []

    def enrol(self, kind: str) -> Place:
        """Return the place of a new domain of a pool, behind those that are there."""
        place = (POOLS.index(kind), next(self._serials))
        self._known.add(place)
        return place

    def touch(self, domain: W) -> None:
        """Note that something happened in a domain."""
        if domain.place in self._known:
            self._touched[domain.place] = domain

    def look_at(self, domain: W, moment: int | None) -> None:
        """Ask for a look at a domain at a moment, ms, and no longer at the one asked for before."""
        if moment is None:
            self._moments.pop(domain.place, None)
        elif self._moments.get(domain.place) != moment:
            self._moments[domain.place] = moment
            heapq.heappush(self._heap, (moment, domain.place, domain))

    def forget(self, domain: W) -> None:
        """Look no more at a domain that is gone, whatever happens in it: those who wait there have yet to leave."""
        self._known.discard(domain.place)
        self._touched.pop(domain.place, None)
        self._moments.pop(domain.place, None)

    def next_moment(self) -> int | None:
        """Return the earliest moment that was asked for, ms, or None."""
        while self._heap:
            moment, place, _ = self._heap[0]
            if self._moments.get(place) == moment:
                return moment
            heapq.heappop(self._heap)
        return None

    def next(self, now: int) -> W | None:
        """Take out the first domain that needs a look at `now` ms, or None."""
        while self._heap and self._heap[0][0] <= now:
            moment, place, domain = heapq.heappop(self._heap)
            if self._moments.get(place) == moment:  # else another one was asked for since
                del self._moments[place]
                self._touched[place] = domain
        touched = self._touched
        if len(touched) <= 1:
            return touched.popitem()[1] if touched else None
        return touched.pop(min(touched))
