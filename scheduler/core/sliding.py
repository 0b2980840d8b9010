"""A sliding log: in any span of its length, no more than its limit, by the clock of whoever receives the calls.

A grant is not a call: the call arrives some time later, and two grants a whole window apart may arrive closer than
that. So a slot is *open*, and counts for as long as it takes, until the worker has told when the call left (or that
it has ended); from then on it counts for one window and the margin.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.quota import Spent, Window

#: What is written down for the next leader is at most this share of its age too young.
GRAIN = 50


@dataclass(slots=True, eq=False)
class Slot:
    """One action's calls: what they count, and when they left; `spent.at` is 0 while that is not known."""

    action: str
    amount: int
    spent: Spent
    closed: bool = False


class SlidingLog:
    """What was spent within one window.

    Args:
        window: the limit.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self._closed: list[Slot] = []  # by time
        self._latest: dict[str, Slot] = {}
        self._total = 0

    def room(self, now: int) -> int:
        """Return how much may be spent at `now` ms; never negative."""
        self._forget(now)
        return max(0, self.window.limit - self._total)

    def when(self, now: int, amount: int) -> int | None:
        """Return the first ms from `now` on with room for `amount`, if nobody spends any; None if not known yet."""
        self._forget(now)
        excess = self._total + amount - self.window.limit
        if excess <= 0:
            return now
        for slot in self._closed:
            excess -= slot.amount
            if excess <= 0:
                return self._end(slot)
        return None

    def open(self, action: str, spent: Spent) -> None:
        """Spend something at a time that is not known yet."""
        slot = self._latest[action] = Slot(action, self._amount(spent), spent)
        self._total += slot.amount

    def close(self, action: str, at: int) -> None:
        """Note when an action's calls left at the latest, ms. Of several answers the latest counts."""
        slot = self._latest.get(action)
        if slot is None or (slot.closed and slot.spent.at >= at):
            return
        if slot.closed:
            self._closed.remove(slot)
        slot.spent = slot.spent._replace(at=at)
        self._close(slot)

    def assume(self, action: str, at: int) -> None:
        """Take it that an action's calls left by `at` ms, if nothing better is known."""
        slot = self._latest.get(action)
        if slot is not None and not slot.closed:
            self.close(action, at)

    def undo(self, action: str) -> None:
        """Take an action's calls back: they never left. One that is not open is ignored."""
        slot = self._latest.get(action)
        if slot is not None and not slot.closed:
            self._total -= slot.amount
            del self._latest[action]

    def correct(self, action: str, tokens: int) -> None:
        """Replace an action's estimate by what it really used. One that is not in the window any more is ignored."""
        slot = self._latest.get(action)
        if slot is not None and self.window.counts == "tokens":
            self._total += tokens - slot.amount
            slot.amount = tokens
            slot.spent = slot.spent._replace(tokens=tokens)

    def load(self, spent: Iterable[Spent]) -> None:
        """Enter what was spent before: what another log, or an earlier leader, has written down."""
        for row in spent:
            slot = Slot("", self._amount(row), row)
            self._total += slot.amount
            self._close(slot)

    def take_over(self, other: SlidingLog, now: int) -> None:
        """Begin with what another log knows."""
        self.load(other.spent(now))
        for slot in other._latest.values():
            if not slot.closed:
                self.open(slot.action, slot.spent)

    def spent(self, now: int) -> list[Spent]:
        """Return what was spent at known times, in cells as wide as a part of their age; each counts as its youngest.

        Rounding can only delay whoever reads it.
        """
        self._forget(now)
        cells: list[Spent] = []
        for slot in reversed(self._closed):
            spent = slot.spent
            if cells and (cells[-1].at - spent.at) * GRAIN <= now - cells[-1].at:
                youngest = cells[-1]
                cells[-1] = Spent(youngest.at, youngest.calls + spent.calls, youngest.tokens + spent.tokens)
            else:
                cells.append(spent)
        return cells[::-1]

    def _amount(self, spent: Spent) -> int:
        return spent.calls if self.window.counts == "calls" else spent.tokens

    def _end(self, slot: Slot) -> int:
        return slot.spent.at + self.window.ms + self.window.margin

    def _close(self, slot: Slot) -> None:
        slot.closed = True
        insort(self._closed, slot, key=lambda other: other.spent.at)

    def _forget(self, now: int) -> None:
        done = 0
        for slot in self._closed:
            if self._end(slot) > now:
                break
            self._total -= slot.amount
            if self._latest.get(slot.action) is slot:
                del self._latest[slot.action]
            done += 1
        if done:
            del self._closed[:done]
