"""The arena against a ledger that the test keeps itself: who holds which bytes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from workers.arena import ALIGNMENT, Arena

UNITS = 24
OWNERS = [f"s{number}" for number in range(8)]


def _gaps(taken: Iterable[tuple[int, int]]) -> list[int]:
    """Return the lengths of the free runs between the (offset, length) pairs."""
    edges = sorted([(0, 0), *taken, (UNITS * ALIGNMENT, 0)])
    gaps = (after - (offset + length) for (offset, length), (after, _) in pairwise(edges))
    return [gap for gap in gaps if gap > 0]


def _largest_gap(taken: Iterable[tuple[int, int]]) -> int:
    return max(_gaps(taken), default=0)


class ArenaLedger(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena(UNITS * ALIGNMENT)
        self.ledger: dict[str, tuple[int, int]] = {}
        self.last_use: dict[str, int] = {}
        self.uses = 0

    @rule(owner=st.sampled_from(OWNERS), nbytes=st.integers(1, UNITS * ALIGNMENT))
    def alloc(self, owner: str, nbytes: int) -> None:
        if owner in self.ledger:
            return
        need = -(-nbytes // ALIGNMENT) * ALIGNMENT
        fitting = [gap for gap in _gaps(self.ledger.values()) if gap >= need]
        offset = self.arena.alloc(owner, nbytes)
        assert (offset is not None) == bool(fitting)
        if offset is None:
            return
        assert offset % ALIGNMENT == 0
        assert 0 <= offset <= UNITS * ALIGNMENT - need
        for other, (start, length) in self.ledger.items():
            assert offset + need <= start or start + length <= offset, other
        before = sorted(_gaps(self.ledger.values()))
        self.ledger[owner] = (offset, need)
        before.remove(min(fitting))
        rest = [min(fitting) - need] if min(fitting) > need else []
        assert sorted(_gaps(self.ledger.values())) == sorted(before + rest)  # best fit, at an end of the hole
        self._use(owner)

    @precondition(lambda self: self.ledger)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(sorted(self.ledger)))
        self.arena.release(owner)
        del self.ledger[owner]

    @precondition(lambda self: self.ledger)
    @rule(data=st.data())
    def use(self, data: st.DataObject) -> None:
        self._use(data.draw(st.sampled_from(sorted(self.ledger))))

    @rule(data=st.data(), units=st.integers(1, UNITS))
    def window(self, data: st.DataObject, units: int) -> None:
        need = units * ALIGNMENT
        unpinned = data.draw(st.sets(st.sampled_from(sorted(self.ledger)))) if self.ledger else set()
        evictable = {owner: self.last_use[owner] for owner in unpinned}
        victims = self.arena.window(need, evictable)
        thresholds = [0, *sorted(evictable.values())]
        enough = [bound for bound in thresholds if self._gap_without(evictable, bound) >= need]
        if victims is None:
            assert not enough
            return
        assert set(victims) <= set(evictable)
        assert max((evictable[victim] for victim in victims), default=0) == enough[0]
        for victim in victims:
            self.arena.release(victim)
            del self.ledger[victim]
        assert _largest_gap(self.ledger.values()) >= need

    @invariant()
    def books_agree(self) -> None:
        held = {slab.owner: (slab.offset, slab.nbytes) for slab in self.arena if slab.owner is not None}
        assert held == self.ledger
        assert sum(slab.nbytes for slab in self.arena) == UNITS * ALIGNMENT

    def teardown(self) -> None:
        for owner in self.ledger:
            self.arena.release(owner)
        assert self.arena.alloc("everything", UNITS * ALIGNMENT) == 0

    def _gap_without(self, evictable: dict[str, int], bound: int) -> int:
        """Return the largest gap if all evictable slabs used up to `bound` were gone."""
        gone = {owner for owner, used in evictable.items() if used <= bound}
        return _largest_gap(place for owner, place in self.ledger.items() if owner not in gone)

    def _use(self, owner: str) -> None:
        self.uses += 1
        self.last_use[owner] = self.uses


TestArenaLedger = ArenaLedger.TestCase
