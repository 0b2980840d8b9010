"""Services without bytes that record what a pager does to them, and pagers of them."""

from __future__ import annotations

import threading

from workers.arena import ALIGNMENT
from workers.page_out import POLICIES, PageOutPolicy
from workers.pager import Pager
from workers.paging import Paging

FOREVER = 1e9
#: What the pagers' clock always says.
NOW = 100.0


class Recorded:
    """A Paged without bytes.

    Args:
        units: its size in units of the alignment.
    """

    def __init__(self, units: int) -> None:
        self.nbytes = units * ALIGNMENT
        self.leased = False
        self.offset: int | None = None
        self.page_ins = self.page_outs = 0
        self.problem = ""
        self.fault: BaseException | None = None
        self.page_out_fault: Exception | None = None
        self.kept_bytes = 0
        self.gate: threading.Event | None = None
        self.entered = threading.Event()
        self.settled = 0
        self.settling: threading.Event | None = None
        self.settles = threading.Event()
        self.problem_raised: Exception | None = None
        self.leaving: threading.Event | None = None
        self.left = threading.Event()

    def page_in(self, offset: int) -> None:
        """Take the slab, when `gate` opens, or fail with `fault`."""
        self.page_ins += 1
        self.entered.set()
        if self.gate is not None:
            assert self.gate.wait(10)
        if self.fault is not None:
            raise self.fault
        self.offset = offset

    def page_out(self) -> int:
        """Give up the slab but `kept_bytes`, when `leaving` is set, or fail with `page_out_fault`."""
        assert not self.leased
        self.left.set()
        if self.leaving is not None:
            assert self.leaving.wait(10)
        if self.page_out_fault is not None:
            raise self.page_out_fault
        self.page_outs += 1
        self.offset = None
        return self.kept_bytes

    def settle(self) -> str:
        """Return `problem`, when `settling` is set, or fail with `problem_raised`."""
        self.settled += 1
        self.settles.set()
        if self.settling is not None:
            assert self.settling.wait(10)
        if self.problem_raised is not None:
            raise self.problem_raised
        return self.problem


def pager_of(budget: int, policy: PageOutPolicy = POLICIES["lru"], **sizes: int) -> tuple[Pager, dict[str, Recorded]]:
    """Return a pager of `budget` units, and its services of so many units."""
    pager = Pager("gpu-0", budget * ALIGNMENT, Paging(policy), clock=lambda: NOW)
    services = {name: Recorded(units) for name, units in sizes.items()}
    for name, service in services.items():
        pager.register(name, service)
    return pager, services


def touch(pager: Pager, *services: str, deadline: float = FOREVER) -> None:
    """Use the services one after another."""
    for service in services:
        with pager.pin(service, action="a1", deadline=deadline):
            pass
