"""The units that running actions hold, each in its sandbox: given, changed while the action runs, taken back."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tangram_tasks.action import Qos
from tangram_tasks.errors import InvalidAction, SandboxError
from workers.cpu_book import CpuBook, Share
from workers.grant_unheld import GrantUnheld
from workers.sandbox_lease import SandboxLease

logger = logging.getLogger(__name__)

#: Resizes of grants that are still on their way here are remembered for so many.
_AHEAD = 1000


@dataclass(slots=True, eq=False)
class HeldGrant:
    """What one running action holds.

    Args:
        lease: the action's use of its sandbox.
        grant: the grant's id.
        share: its units.
        over: the action has ended; its units are on their way back.
        lock: held while the share changes.
    """

    lease: SandboxLease
    grant: str
    share: Share
    over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class CpuGrants:
    """All of one node. Thread safe.

    Args:
        node: its name, for messages.
        book: its units.
    """

    def __init__(self, node: str, book: CpuBook) -> None:
        self._node, self._book = node, book
        self._lock = threading.Lock()  # the book and the list change together, so that an audit finds them in step
        self._held: list[HeldGrant] = []
        self._ahead: OrderedDict[str, int] = OrderedDict()  # grant to the units it shall start with
        self._served = self._resized = self._refused = self._healed = 0

    @contextlib.contextmanager
    def hold(self, lease: SandboxLease, *, grant: str, units: int, qos: Qos) -> Iterator[None]:
        """Let an action have units for the length of the block; with 0, a small share of CPUs that others use, too.

        Raises:
            GrantUnheld: the units are not free here.
            SandboxError: its sandbox is gone.
        """
        held = self._take(lease, grant, units, qos)
        try:
            with _timed(lease):
                lease.sandbox.grow(held.share, self._book.cpu_unit)
            lease.resized(held.share.units)
            yield
        finally:
            lease.finish()
            self._release(held)

    def resize(self, action: str, units: int, grant: str | None = None) -> bool:
        """Let a running action have other units.

        Args:
            action: its id.
            units: what it shall hold, from 1 to its `max_units`.
            grant: which of its grants is meant; None means any that runs. One that is not here is taken to be on its
                way: it will start with so many.

        Returns:
            Whether it holds them now, or will from its start; False if it does not run here.

        Raises:
            InvalidAction: it can never hold that many.
            GrantUnheld: so many are not free; it keeps what it has.
            SandboxError: its sandbox is gone.
        """
        with self._lock:
            held = self._find(action, grant)
            if held is None:
                self._start_with(grant, units)
                return grant is not None
        with held.lock:
            if held.over:
                return False
            if not 1 <= units <= held.lease.max_units or not held.share.units:
                raise InvalidAction(
                    f"action {action} holds {held.share.units} units; it can have 1 to {held.lease.max_units},"
                    f" or none if it is a light one, not {units}"
                )
            if units > held.share.units:
                self._grow(held, units)
            elif units < held.share.units:
                self._shrink(held, units)
            return True

    def units_of(self, action: str, grant: str | None = None) -> int:
        """Units that a running action holds; 0 if it does not run here."""
        with self._lock:
            held = self._find(action, grant)
            return 0 if held is None else held.share.units

    def leases(self) -> list[SandboxLease]:
        """Return the leases of all running actions."""
        with self._lock:
            return [held.lease for held in self._held]

    def audit(self) -> int:
        """Compare the book with what running actions hold, and correct it. Returns by how many units it was off."""
        with self._lock:
            wrong = self._book.settle(held.share for held in self._held if held.share.units)
            self._healed += wrong
        if wrong:
            logger.error("node %s: the book of CPU units was off by %d; corrected", self._node, wrong)
        return wrong

    def stats(self) -> dict[str, float]:
        """Return counters for people."""
        with self._lock:
            return {
                "actions": len(self._held),
                "actions_served": self._served,
                "cpu_free": self._book.free,
                "resizes": self._resized,
                "grants_refused": self._refused,
                "units_healed": self._healed,
            }

    def _take(self, lease: SandboxLease, grant: str, units: int, qos: Qos) -> HeldGrant:
        with self._lock:
            units = self._ahead.pop(grant, units)
            try:
                share = self._book.take(units, qos) if units else self._book.light(qos)
            except GrantUnheld as error:
                self._refused += 1
                raise GrantUnheld(f"node {self._node} refuses action {lease.action}: {error}") from None
            held = HeldGrant(lease, grant, share)
            self._held.append(held)
            return held

    def _release(self, held: HeldGrant) -> None:
        with held.lock:
            held.over = True
        try:
            with _timed(held.lease):
                held.lease.sandbox.shrink(held.share, self._book.cpu_unit)
        except SandboxError as error:  # its end must not hide how the action ended
            logger.warning("after action %s: %s", held.lease.action, error)
        with self._lock:
            self._held.remove(held)
            self._served += 1
            if held.share.units:
                self._book.give_back(held.share)

    def _grow(self, held: HeldGrant, units: int) -> None:
        old = held.share
        with self._lock:
            held.share, added = self._book.more(old, units)
        try:
            held.lease.sandbox.exchange(old, held.share, self._book.cpu_unit)
        except SandboxError:
            with self._lock:
                held.share = old
                self._book.give_back(added)
            raise
        self._note(held)

    def _shrink(self, held: HeldGrant, units: int) -> None:
        kept, gone = self._book.less(held.share, units)
        held.lease.sandbox.exchange(held.share, kept, self._book.cpu_unit)
        with self._lock:  # only now does the sandbox leave them alone
            held.share = kept
            self._book.give_back(gone)
        self._note(held)

    def _note(self, held: HeldGrant) -> None:
        held.lease.resized(held.share.units)
        with self._lock:
            self._resized += 1

    def _find(self, action: str, grant: str | None) -> HeldGrant | None:
        mine = (held for held in reversed(self._held) if held.lease.action == action)
        return next((held for held in mine if grant is None or held.grant == grant), None)

    def _start_with(self, grant: str | None, units: int) -> None:
        if grant is not None:
            self._ahead[grant] = units
            while len(self._ahead) > _AHEAD:
                self._ahead.popitem(last=False)


@contextlib.contextmanager
def _timed(lease: SandboxLease) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        lease.usage.resize_s += time.perf_counter() - began
