"""A token bucket in whole numbers: exact over any span of time, whatever the rate."""

from __future__ import annotations

#: The level counts billionths of a token: one micro-token per second is one of them per ms.
TOKEN = 10**9


class TokenBucket:
    """Lets `burst` calls start at once and `per_second` on average.

    In any window of t seconds at most burst + per_second x t calls start. It starts full.

    Args:
        per_second: tokens that come back per second; kept to a millionth, and at least that.
        burst: tokens it can hold.
        now: ms.
    """

    def __init__(self, per_second: float, burst: int, now: int) -> None:
        self._rate = _micro(per_second)
        self._burst = burst
        self._level = burst * TOKEN
        self._at = now

    def tokens(self, now: int) -> int:
        """Return the whole tokens there are at `now` ms."""
        self._refill(now)
        return self._level // TOKEN

    def take(self, now: int, count: int) -> None:
        """Spend tokens at `now` ms. Raises ValueError if there are not so many."""
        if count > self.tokens(now):
            raise ValueError(f"the bucket holds {self._level / TOKEN:.3f} tokens at {now} ms, not {count}")
        self._level -= count * TOKEN

    def when(self, now: int, count: int) -> int:
        """Return the first ms from `now` on at which it holds `count` tokens, if nobody takes any."""
        self._refill(now)
        missing = max(0, count * TOKEN - self._level)
        return self._at + -(-missing // self._rate)

    def change(self, now: int, per_second: float, burst: int) -> None:
        """Take over another rate and burst at `now` ms; what is in the bucket stays, up to the new burst."""
        self._refill(now)
        self._rate, self._burst = _micro(per_second), burst
        self._level = min(self._level, burst * TOKEN)

    def _refill(self, now: int) -> None:
        self._level = min(self._burst * TOKEN, self._level + (now - self._at) * self._rate)
        self._at = now


def _micro(per_second: float) -> int:
    return max(1, round(per_second * 10**6))
