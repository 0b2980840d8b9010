"""How many calls at once a provider bears, learned from its answers: additive increase, multiplicative decrease.

As TCP does (Chiu and Jain, 1989): a full round of calls that went well adds one, an overload halves.
"""

from __future__ import annotations

#: What a provider is tried with at first.
FIRST = 4
#: Overloads that close to each other count as one, ms: the calls were in flight together.
APART = 1000


class Pace:
    """The present limit.

    Args:
        most: it never exceeds this.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = min(FIRST, most)
        self._good = 0
        self._halved: int | None = None

    def well(self) -> None:
        """Note a call that went well."""
        self._good += 1
        if self._good >= self.limit:
            self._good = 0
            self.limit = min(self.most, self.limit + 1)

    def overload(self, now: int) -> None:
        """Note at `now` ms that the provider had too much."""
        if self._halved is None or now - self._halved >= APART:
            self._halved, self._good = now, 0
            self.limit = max(1, self.limit // 2)

    def change(self, most: int) -> None:
        """Take over another upper limit."""
        self.most = most
        self.limit = min(self.limit, most)
