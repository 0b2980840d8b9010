"""The open leases of a GPU node, and the end of those that nobody ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from tangram_tasks.errors import InvalidAction, ServiceUnavailable
from workers.service_lease import ServiceLease

logger = logging.getLogger(__name__)

#: Seconds past its deadline after which a lease that nobody ended is taken back.
TTL = 60.0


@dataclass(slots=True, eq=False)
class _Open:
    lease: ServiceLease
    held: ExitStack = field(default_factory=ExitStack)
    owner: threading.Thread = field(default_factory=threading.current_thread)
    freed: bool = False


class LeaseBook:
    """Leases by action. Each is given back once: by its action, or by `reap` when the action is gone.

    Args:
        node: its name, for messages.
        ttl: seconds.
        clock: seconds that deadlines are read against.
    """

    def __init__(
        self,
        node: str,
        *,
        ttl: float = TTL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._ttl = ttl
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}
        self._lingering: list[_Open] = []
        self._refusal = ""

    @property
    def stuck(self) -> int:
        """Devices on which something runs whose action is over, but one that was lost: that is out of use anyway."""
        with self._lock:
            return sum(opened.lease.units - bool(opened.lease.lost) for opened in self._lingering)

    @property
    def closed(self) -> bool:
        """Whether it refuses new leases."""
        return bool(self._refusal)

    @contextmanager
    def lease(self, action: str, lease: ServiceLease) -> Iterator[ExitStack]:
        """Keep a lease in the book for the length of the context; yields where to enter what it holds.

        Raises:
            InvalidAction: the action has one already.
            ServiceUnavailable: the book is closed; or what giving back finds wrong.
        """
        with self._lock:
            if self._refusal:
                raise ServiceUnavailable(f"{self._refusal}: action {action} gets no service")
            if action in self._open:
                raise InvalidAction(f"action {action} already has a lease on node {self._node}")
            opened = self._open[action] = _Open(lease)
        try:
            yield opened.held
        except BaseException:
            with suppress(ServiceUnavailable):  # what ended the action says more
                self._give_back(action, opened)
            raise
        self._give_back(action, opened)

    def find(self, action: str) -> ServiceLease | None:
        """Return an action's lease."""
        with self._lock:
            opened = self._open.get(action)
        return None if opened is None else opened.lease

    def close(self, refusal: str) -> list[ServiceLease] | None:
        """Refuse new leases from now on; returns the open ones, or None if that was done before."""
        with self._lock:
            if self._refusal:
                return None
            self._refusal = refusal
            return [opened.lease for opened in self._open.values()]

    def reap(self) -> list[str]:
        """Take back the leases of threads that are gone, and those long past their deadline; returns the actions."""
        now = self._clock()
        with self._lock:
            gone = {
                action: opened
                for action, opened in self._open.items()
                if not opened.owner.is_alive() or now > opened.lease.deadline + self._ttl
            }
        for action, opened in gone.items():
            try:
                self._give_back(action, opened)
            except ServiceUnavailable as error:
                logger.warning("node %s: %s", self._node, error)
        return list(gone)

    def _give_back(self, action: str, opened: _Open) -> None:
        """End a lease. An action whose lease was reaped ends it once more: it may have been given a device since."""
        with self._lock:
            if self._open.get(action) is opened:
                del self._open[action]
        if opened.lease.end(lambda: self._free(opened)):
            return
        with self._lock:
            if not opened.freed and opened not in self._lingering:
                self._lingering.append(opened)

    def _free(self, opened: _Open) -> None:
        try:
            opened.held.close()
        finally:
            with self._lock:
                opened.freed = True
                if opened in self._lingering:
                    self._lingering.remove(opened)
