"""The book of CPU units under any order of events, against books of the test's own."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tangram_tasks.action import Qos
from workers.cpu_book import CpuBook, Share
from workers.grant_unheld import GrantUnheld
from workers.topology import Topology

CPUS = range(16)
SMT = Topology({cpu: cpu % 8 for cpu in CPUS}, {cpu: cpu % 8 // 4 for cpu in CPUS})


class BookMachine(RuleBasedStateMachine):
    """A machine of two sockets, four cores each, two threads each."""

    def __init__(self) -> None:
        super().__init__()
        self.book = CpuBook(CPUS, 16, 1.0, SMT)
        self.shares: list[Share] = []

    def room(self, qos: Qos) -> int:
        """Return how many CPUs this class could still be given."""
        taken = {cpu: share.qos for share in self.shares for cpu in share.cpus}
        foreign = {cpu % 8 for cpu, holder in taken.items() if holder != qos}
        return sum(cpu not in taken and cpu % 8 not in foreign for cpu in CPUS)

    @rule(units=st.integers(1, 8), qos=st.sampled_from(["ls", "be"]))
    def take(self, units: int, qos: Qos) -> None:
        room = self.room(qos)
        try:
            self.shares.append(self.book.take(units, qos))
        except GrantUnheld:
            assert units > room
        else:
            assert units <= room

    @precondition(lambda self: self.shares)
    @rule(data=st.data(), by=st.integers(1, 4))
    def grow(self, data: Any, by: int) -> None:
        place = data.draw(st.integers(0, len(self.shares) - 1))
        old, room = self.shares[place], self.room(self.shares[place].qos)
        try:
            new, added = self.book.more(old, old.units + by)
        except GrantUnheld:
            assert by > room
        else:
            assert set(new.cpus) == {*old.cpus, *added.cpus}
            self.shares[place] = new

    @precondition(lambda self: any(share.units > 1 for share in self.shares))
    @rule(data=st.data())
    def shrink(self, data: Any) -> None:
        places = [place for place, share in enumerate(self.shares) if share.units > 1]
        place = data.draw(st.sampled_from(places))
        kept, gone = self.book.less(self.shares[place], data.draw(st.integers(1, self.shares[place].units - 1)))
        assert {*kept.cpus, *gone.cpus} == set(self.shares[place].cpus)
        self.book.give_back(gone)
        self.shares[place] = kept

    @precondition(lambda self: self.shares)
    @rule(data=st.data())
    def end(self, data: Any) -> None:
        self.book.give_back(self.shares.pop(data.draw(st.integers(0, len(self.shares) - 1))))

    @invariant()
    def nobody_shares_a_cpu(self) -> None:
        held = [cpu for share in self.shares for cpu in share.cpus]
        assert len(held) == len(set(held)) == sum(share.units for share in self.shares)
        assert self.book.free == 16 - len(held)

    @invariant()
    def classes_share_no_core(self) -> None:
        cores = {(cpu % 8, share.qos) for share in self.shares for cpu in share.cpus}
        assert len(cores) == len({core for core, _ in cores})

    @invariant()
    def an_audit_finds_nothing(self) -> None:
        assert self.book.settle(self.shares) == 0


TestCpuBook = BookMachine.TestCase
TestCpuBook.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
