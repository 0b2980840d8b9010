"""Where a service is, as the pager of one device sees it, and what the pager counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from workers.service import Paged

#: Uses of a device, by whatever service, after which an old use counts half.
HALF_LIFE = 64


class Residency(StrEnum):
    """Where a service's weights are, as one device sees it."""

    PARKED = "parked"  # in the host image
    PAGING_IN = "paging_in"
    RESIDENT = "resident"
    DRAINING = "draining"  # to be paged out: runs end, new ones wait
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PageIn:
    """What a pin cost.

    Args:
        seconds: waiting for room, copying and re-binding; 0 when it was resident.
        count: 1 if this pin paged the service in.
    """

    seconds: float = 0.0
    count: int = 0


@dataclass(slots=True)
class Counters:
    """What a pager did since it started."""

    page_ins: int = 0
    page_outs: int = 0
    bytes_in: int = 0
    hits: int = 0


@dataclass(slots=True)
class Entry:
    """One service in a pager's books.

    Args:
        service: its name.
        paged: moves it.
        state: where it is.
        pins: the actions that use it.
        kept: never to make room for others.
        charged: whether the arena holds bytes for it.
        last_use: the device's count of uses at its latest one.
        heat: how often it is used; see `use`.
        seconds: a typical page-in.
        reason: why it failed.
        page_ins: how often it was paged in.
        hits: how often it was there already.
    """

    service: str
    paged: Paged
    state: Residency = Residency.PARKED
    pins: list[str] = field(default_factory=list)
    kept: bool = False
    charged: bool = False
    last_use: int = 0
    heat: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    page_ins: int = 0
    hits: int = 0

    @property
    def idle(self) -> bool:
        """Whether it may be paged out to make room."""
        return self.state is Residency.RESIDENT and not self.pins and not self.kept

    def use(self, now: int) -> None:
        """Note a use that ended; earlier ones fade.

        Args:
            now: the device's count of uses.
        """
        self.heat = 1.0 + self.heat_at(now)
        self.last_use = now

    def heat_at(self, now: int) -> float:
        """Return its uses, each counted by how long ago it was."""
        return self.heat * math.exp2((self.last_use - now) / HALF_LIFE)

    def took(self, seconds: float) -> None:
        """Note how long a page-in took; the mean follows slowly."""
        self.seconds = seconds if self.seconds == 0.0 else 0.7 * self.seconds + 0.3 * seconds
