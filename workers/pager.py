"""Which services are resident on one device: page-in, page-out and pins.

Only bookkeeping: a `Paged` moves the bytes. One lock guards the books; the copy of a page-in runs outside it.

* A pinned service is never paged out, and a slab belongs to one service.
* A service is paged in once however many actions wait for it.
* LRU over unpinned residents (paper, section 4.3), by windows of the arena.
* What failed (wrong bytes after a page-in, weights changed by a call) is not used on this device again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from tangram_tasks.errors import ConfigurationError, ServiceUnavailable
from workers.arena import Arena, aligned
from workers.service import Paged

MIB = 1 << 20


class Residency(StrEnum):
    """Where a service's weights are, as one device sees it."""

    PARKED = "parked"  # in the host image
    PAGING_IN = "paging_in"
    RESIDENT = "resident"
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
class _Entry:
    service: str
    paged: Paged
    state: Residency = Residency.PARKED
    pins: list[str] = field(default_factory=list)  # actions
    last_use: int = 0
    reason: str = ""


class Pager:
    """Pages services in and out of one device.

    Args:
        device: its name, for messages.
        budget: bytes of the device's arena.
        clock: seconds that deadlines are read against.
    """

    def __init__(self, device: str, budget: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.device = device
        self.counters = Counters()
        self._arena = Arena(budget)
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._changed = threading.Condition()
        self._uses = 0
        self._closed = False

    def register(self, service: str, paged: Paged) -> None:
        """Make a service known. Raises ConfigurationError if the whole device could not hold it."""
        need = aligned(paged.nbytes)
        if need > self._arena.budget:
            raise ConfigurationError(
                f"service {service} needs {need / MIB:.1f} MiB, and device {self.device} has a budget of "
                f"{self._arena.budget / MIB:.1f} MiB: raise the budget or leave the service out"
            )
        self._entries[service] = _Entry(service, paged)

    def residency(self, service: str) -> Residency:
        """Return where the service is."""
        return self._entries[service].state

    def cost(self, service: str) -> int:
        """Rank the device for a service, lower is better: 0 resident, 1 room, 2 others must go or wait, 3 failed."""
        with self._changed:
            entry = self._entries[service]
            if entry.state is Residency.PARKED:
                need = aligned(entry.paged.nbytes)
                return 1 if any(slab.owner is None and slab.nbytes >= need for slab in self._arena) else 2
            return {Residency.RESIDENT: 0, Residency.PAGING_IN: 0, Residency.FAILED: 3}[entry.state]

    @contextmanager
    def pin(self, service: str, *, action: str, deadline: float) -> Iterator[PageIn]:
        """Hold the service on the device for the length of the context, paging it in if need be.

        Args:
            service: a registered one.
            action: who uses it.
            deadline: clock value after which waiting for room ends.

        Raises:
            ServiceUnavailable: no room before the deadline, the page-in failed, the pager is closed, or a call
                changed weights that were not declared mutable.
        """
        entry = self._known(service)
        cost = self._acquire(entry, action, deadline)
        try:
            yield cost
        except BaseException:
            self._release(entry, action)
            raise
        problem = self._release(entry, action)
        if problem:
            raise ServiceUnavailable(f"action {action}: {problem}")

    def close(self, deadline: float) -> bool:
        """Refuse new pins, wait for the old ones until `deadline`, then page out and forget all; False if too late."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while any(entry.pins for entry in self._entries.values()):
                left = deadline - self._clock()
                if left <= 0:
                    return False
                self._changed.wait(left)
            for entry in self._entries.values():
                if entry.state is Residency.RESIDENT:
                    self._page_out(entry)
            self._entries.clear()
        return True

    def _acquire(self, entry: _Entry, action: str, deadline: float) -> PageIn:
        started = self._clock()
        with self._changed:
            offset: int | None = None
            while not self._admits(entry):
                offset = self._room(entry)
                if offset is not None:
                    entry.state = Residency.PAGING_IN
                    break
                self._wait(entry, action, deadline)
            entry.pins.append(action)
            if offset is None:
                entry.paged.leased = True
                self.counters.hits += 1
                return PageIn()
        self._page_in(entry, action, offset)
        return PageIn(self._clock() - started, 1)

    def _known(self, service: str) -> _Entry:
        self._check_open(service)
        return self._entries[service]

    def _check_open(self, service: str) -> None:
        if self._closed:
            raise ServiceUnavailable(f"device {self.device} is shutting down: service {service} is not paged in")

    def _admits(self, entry: _Entry) -> bool:
        self._check_open(entry.service)
        if entry.state is Residency.FAILED:
            raise ServiceUnavailable(f"service {entry.service} has failed on device {self.device}: {entry.reason}")
        return entry.state is Residency.RESIDENT

    def _room(self, entry: _Entry) -> int | None:
        """Return an offset for a parked service, paging out unpinned ones; None if it must wait."""
        if entry.state is not Residency.PARKED:
            return None
        offset = self._arena.alloc(entry.service, entry.paged.nbytes)
        if offset is not None:
            return offset
        unpinned = {
            name: other.last_use
            for name, other in self._entries.items()
            if other.state is Residency.RESIDENT and not other.pins
        }
        for victim in self._arena.window(entry.paged.nbytes, unpinned) or ():
            self._page_out(self._entries[victim])
        return self._arena.alloc(entry.service, entry.paged.nbytes)

    def _wait(self, entry: _Entry, action: str, deadline: float) -> None:
        left = deadline - self._clock()
        if left > 0:
            self._changed.wait(left)
            return
        holders = sorted({pin for other in self._entries.values() for pin in other.pins})
        raise ServiceUnavailable(
            f"service {entry.service} ({entry.paged.nbytes / MIB:.1f} MiB) found no room on device {self.device} "
            f"(budget {self._arena.budget / MIB:.1f} MiB) before the deadline of action {action}; in use by "
            f"{', '.join(holders) or 'nobody'}: raise the budget, or run fewer services on this device at once"
        )

    def _page_in(self, entry: _Entry, action: str, offset: int) -> None:
        try:
            entry.paged.page_in(offset)
        except BaseException as error:
            with self._changed:
                entry.pins.remove(action)
                self._page_out(entry, Residency.FAILED if isinstance(error, Exception) else Residency.PARKED)
                entry.reason = f"page-in: {error}"
            if isinstance(error, Exception):
                raise ServiceUnavailable(
                    f"service {entry.service} could not be paged in on device {self.device} for {action}: {error}"
                ) from error
            raise
        with self._changed:
            entry.state = Residency.RESIDENT
            entry.paged.leased = True
            self.counters.page_ins += 1
            self.counters.bytes_in += entry.paged.nbytes
            self._changed.notify_all()

    def _release(self, entry: _Entry, action: str) -> str:
        """Drop a pin; return what is wrong with the service's weights since, or ""."""
        with self._changed:
            entry.pins.remove(action)
            self._uses += 1
            entry.last_use = self._uses
            if not entry.pins:
                entry.paged.leased = False
                entry.reason = entry.paged.settle()
                if entry.reason:
                    self._page_out(entry, Residency.FAILED)
            self._changed.notify_all()
            return entry.reason

    def _page_out(self, entry: _Entry, state: Residency = Residency.PARKED) -> None:
        entry.paged.page_out()
        self._arena.release(entry.service)
        self.counters.page_outs += entry.state is Residency.RESIDENT
        entry.state = state
        self._changed.notify_all()
