"""Which services are resident on one device: page-in, page-out and pins.

Only bookkeeping: a `Paged` moves the bytes. One lock guards the books; copies in and out run outside of it, and the
books follow when the copy is verified.

* A pinned service is never paged out, and a slab belongs to one service.
* A service is paged in once however many actions wait for it.
* A policy says what makes room, by windows of the arena.
* What failed (wrong bytes after a page-in, weights changed by a call, memory not given back) is not used on this
  device again before somebody loads it by hand; bytes that it did not give back stay charged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tangram_tasks.errors import ServiceUnavailable
from tangram_tasks.orders import ServiceState
from workers.device_books import MIB, DeviceBooks
from workers.paging import DEFAULT, Paging
from workers.residency import Entry, PageIn, Residency
from workers.service import Away, Paged

#: States that some thread is about to change.
_MOVING = (Residency.PAGING_IN, Residency.DRAINING)


class Pager:
    """Pages services in and out of one device.

    Args:
        device: its name, for messages.
        budget: bytes of the device's arena.
        paging: who makes room.
        clock: seconds that deadlines are read against.
    """

    def __init__(
        self,
        device: str,
        budget: int,
        paging: Paging = DEFAULT,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._books = DeviceBooks(device, budget, paging.policy)
        self.device = device
        self.counters = self._books.counters
        self._next_uses = paging.next_uses
        self._clock = clock
        self._entries = self._books.entries
        self._changed = threading.Condition()
        self._closed = False

    def register(self, service: str, paged: Paged) -> None:
        """Make a service known. Raises ConfigurationError if the whole device could not hold it."""
        self._books.add(service, paged)

    def residency(self, service: str) -> Residency:
        """Return where the service is."""
        return self._entries[service].state

    def state(self, service: str) -> ServiceState:
        """Return what people may know of the service here."""
        with self._changed:
            return self._books.state(service)

    def cost(self, service: str) -> int:
        """Rank the device for a service, lower is better: 0 resident, 1 room, 2 others must go or wait, 3 failed."""
        with self._changed:
            entry = self._entries[service]
            match entry.state:
                case Residency.RESIDENT | Residency.PAGING_IN:
                    return 0
                case Residency.FAILED:
                    return 3
                case Residency.DRAINING:
                    return 2
                case _:
                    return 1 if self._books.fits_beside(entry) else 2

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

    def load(self, service: str, *, deadline: float) -> PageIn:
        """Page a service in without an action; one that had failed is tried again. Raises ServiceUnavailable."""
        entry = self._known(service)
        with self._changed:
            retry = entry.state is Residency.FAILED
            if retry:
                entry.state = Residency.DRAINING
        if retry:
            self._page_out(entry)
        with self.pin(service, action=f"load of {service}", deadline=deadline) as cost:
            return cost

    def park(self, service: str, *, deadline: float | None = None) -> None:
        """Page a service out. Nothing happens if it is not resident.

        Args:
            service: a registered one.
            deadline: clock value until which to wait for the actions that use it, while new ones wait; None refuses
                at once if there are any.

        Raises:
            ServiceUnavailable: it is in use, or it could not be paged out.
        """
        entry = self._known(service)
        with self._changed:
            while entry.state in _MOVING and deadline is not None and self._sleep_until(deadline):
                pass
            if entry.state in _MOVING:
                raise ServiceUnavailable(f"service {service} is {entry.state.value} on device {self.device}: try again")
            if entry.state is not Residency.RESIDENT:
                return
            entry.state = Residency.DRAINING
            while entry.pins and deadline is not None and self._sleep_until(deadline):
                pass
            if entry.pins:
                entry.state = Residency.RESIDENT
                self._changed.notify_all()
                raise ServiceUnavailable(
                    f"service {service} is in use on device {self.device} by {', '.join(entry.pins)}: it stays there"
                )
        self._page_out(entry, entry.reason)
        if entry.reason:
            raise ServiceUnavailable(f"service {service} has failed on device {self.device}: {entry.reason}")

    def keep(self, service: str, kept: bool) -> None:
        """Never let the service make room for others, or let it again."""
        with self._changed:
            self._known(service).kept = kept
            self._changed.notify_all()

    def close(self, deadline: float) -> bool:
        """Refuse new pins, wait for the old ones until `deadline`, then page out and forget all; False if too late."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while any(entry.pins or entry.state in _MOVING for entry in self._entries.values()):
                if not self._sleep_until(deadline):
                    return False
            leaving = [entry for entry in self._entries.values() if entry.state is Residency.RESIDENT]
            for entry in leaving:
                entry.state = Residency.DRAINING
        for entry in leaving:
            self._page_out(entry)
        with self._changed:
            self._entries.clear()
        return True

    def _acquire(self, entry: Entry, action: str, deadline: float) -> PageIn:
        started, waited = self._clock(), False
        while True:
            with self._changed:
                if self._admits(entry):
                    entry.pins.append(action)
                    entry.paged.leased = True
                    entry.hits += 1
                    self.counters.hits += 1
                    return PageIn(self._clock() - started if waited else 0.0)
                victims: list[Entry] = []
                if entry.state is Residency.PARKED:
                    offset = self._books.take(entry)
                    if offset is not None:
                        entry.state = Residency.PAGING_IN
                        entry.pins.append(action)
                        break
                    victims = self._books.victims(entry, self._next_uses())
                for victim in victims:
                    victim.state = Residency.DRAINING
                if not victims and not self._sleep_until(deadline):
                    raise self._books.crowded(entry, action)
            waited = True
            for victim in victims:
                self._page_out(victim)
        self._page_in(entry, action, offset)
        return PageIn(self._clock() - started, 1)

    def _known(self, service: str) -> Entry:
        self._check_open(service)
        return self._entries[service]

    def _check_open(self, service: str) -> None:
        if self._closed:
            raise ServiceUnavailable(f"device {self.device} is shutting down: service {service} is not paged in")

    def _admits(self, entry: Entry) -> bool:
        self._check_open(entry.service)
        if entry.state is Residency.FAILED:
            raise ServiceUnavailable(f"service {entry.service} has failed on device {self.device}: {entry.reason}")
        return entry.state is Residency.RESIDENT

    def _sleep_until(self, deadline: float) -> bool:
        """Wait for a change, with the lock held; False if the deadline has passed."""
        left = deadline - self._clock()
        if left > 0:
            self._changed.wait(left)
        return left > 0

    def _page_in(self, entry: Entry, action: str, offset: int) -> None:
        started = self._clock()
        try:
            entry.paged.page_in(offset)
        except BaseException as error:
            with self._changed:
                entry.pins.remove(action)
            failed = isinstance(error, Exception) and not isinstance(error, Away)
            self._page_out(entry, f"page-in: {error}" if failed else "")
            if not isinstance(error, Exception):
                raise
            raise ServiceUnavailable(
                f"service {entry.service} could not be paged in on device {self.device} for {action}: {error}"
            ) from error
        with self._changed:
            self._books.paged_in(entry, self._clock() - started)
            entry.paged.leased = True
            self._changed.notify_all()

    def _release(self, entry: Entry, action: str) -> str:
        """Drop a pin; return what is wrong with the service's weights since, or "".

        The last pin is dropped when its use is settled, which may take as long as a copy and needs no lock: the pin
        holds the service meanwhile. Who used it during that time leaves it to be settled once more.
        """
        problem, settled = "", -1
        while True:
            with self._changed:
                if problem or len(entry.pins) > 1 or settled == entry.hits:
                    mine = self._unpin(entry, action, problem)
                    break
                settled = entry.hits
            problem = _settle(entry)
        if mine:
            self._page_out(entry, problem)
        return problem

    def _unpin(self, entry: Entry, action: str, problem: str) -> bool:
        """Drop a pin, with the lock held; whether the caller must page the service out for its problem."""
        entry.pins.remove(action)
        self._books.used(entry)
        self._changed.notify_all()
        if entry.pins:
            return False  # the last one will find the problem again
        entry.paged.leased = False
        if not problem:
            return False
        mine = entry.state is Residency.RESIDENT  # else somebody is about to page it out
        entry.state, entry.reason = Residency.DRAINING, problem
        return mine

    def _page_out(self, entry: Entry, reason: str = "") -> None:
        """Page out what only this thread may move; `reason` says that it has failed. Called without the lock."""
        left, interrupt = entry.paged.nbytes, None
        try:
            left = entry.paged.page_out()
        except Exception as error:  # noqa: BLE001  # whatever it was, its bytes stay charged
            reason = f"{reason and f'{reason}; '}page-out: {error}"
        except BaseException as error:  # noqa: BLE001  # raised below, when the books are right
            reason, interrupt = f"page-out: {error!r}", error
        if left and not reason:
            reason = f"page-out: {left / MIB:.1f} of {entry.paged.nbytes / MIB:.1f} MiB were not given back"
        with self._changed:
            self._books.paged_out(entry, left, reason)
            self._changed.notify_all()
        if interrupt is not None:
            raise interrupt


def _settle(entry: Entry) -> str:
    try:
        return entry.paged.settle()
    except Exception as error:  # noqa: BLE001  # whatever it was, nobody knows what the weights are now
        return f"the weights cannot be looked at: {error!r}"
