"""Delivery: hands to a node what was decided, so that it never has to hold more units than it has.

The policy decides as if a running action that must shrink had done so; the books of the domain are kept in these
*decided* units. The node needs a moment. So a shrink is ordered at once, and whoever is to get the units (a fresh
grant, or an action that grows) is *held back* until the node has answered with Resized. Each action has at most one
order in flight, so that every answer belongs to the last order. Units that are held back were promised by the same
books, so they always come.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.events import Grant, Resize


class Delivery:
    """What the node may be holding, per action, beside what was decided.

    Args:
        instant: nodes carry out orders without delay; for simulations.
    """

    def __init__(self, instant: bool = False) -> None:
        self.instant = instant
        self.held_back: dict[str, str] = {}
        self._decided: dict[str, int] = {}
        self._actual: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._open: dict[str, str] = {}
        self._total = 0

    @property
    def pending(self) -> bool:
        """Whether something may be ready."""
        return bool(self._open)

    def settled(self, action: str, units: int) -> None:
        """Note that an action holds its units on the node already (a restored grant)."""
        self._decided[action] = units
        self._hold(action, units)

    def start(self, action: str, node: str, units: int) -> None:
        """Let an action start with so many units as soon as they are free on the node."""
        self._decided[action] = units
        self.held_back[action] = self._open[action] = node

    def resize(self, action: str, node: str, units: int) -> None:
        """Let an action have other units; one that is held back then starts with those."""
        self._decided[action] = units
        self._open.setdefault(action, node)

    def confirm(self, action: str, units: int) -> bool:
        """Take in a node's answer. Returns whether it has done what was asked; else its word counts from now on."""
        asked = self._asked.pop(action, self._decided[action])
        self._hold(action, units)
        if units == asked:
            return True
        self._decided[action] = units
        return False

    def drop(self, action: str) -> None:
        """Forget an action that ended or must not start any more."""
        del self._decided[action]
        self._total -= self._actual.pop(action, 0)
        for book in (self._asked, self._open, self.held_back):
            book.pop(action, None)

    def ready(self, capacity: int) -> list[Grant | Resize]:
        """Return the orders that can go to the node now: shrinks, then starts and grows as decided, while they fit.

        Args:
            capacity: units that the node has.
        """
        orders = self._shrinks() if len(self._open) > len(self.held_back) else []
        for action, node in [row for row in self._open.items() if row[0] not in self._asked]:
            units = self._decided[action]
            more = units - self._actual.get(action, 0)
            if action in self.held_back:
                if more <= max(0, capacity - self._total):
                    del self.held_back[action], self._open[action]
                    self._hold(action, units)
                    orders.append(Grant(action, node, units))
            elif 0 < more <= capacity - self._total:
                self._hold(action, units)
                orders.append(self._order(action, node))
            elif more == 0:
                del self._open[action]
        return orders

    def _shrinks(self) -> list[Grant | Resize]:
        return [
            self._order(action, node)
            for action, node in self._open.items()
            if action not in self._asked
            and action not in self.held_back
            and self._decided[action] < self._actual[action]
        ]

    def validate(self, decided: Mapping[str, int]) -> None:
        """Raise AssertionError if the books differ from `decided` or are not closed."""
        assert self._decided == decided, f"delivery: decided {self._decided}, the domain says {dict(decided)}"
        assert self._total == sum(self._actual.values()), f"delivery: {self._total} units are not {self._actual}"
        settled = {action for action in decided if action not in self._open}
        wrong = [action for action in settled if self._actual.get(action) != decided[action]]
        assert not wrong, f"delivery: {wrong} have other units than decided, and nothing is open"

    def _hold(self, action: str, units: int) -> None:
        self._total += units - self._actual.get(action, 0)
        self._actual[action] = units

    def _order(self, action: str, node: str) -> Resize:
        units = self._decided[action]
        if self.instant:
            self._hold(action, units)
        else:
            self._asked[action] = units
        return Resize(action, node, units)
