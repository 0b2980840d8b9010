"""An API provider as it answers: it accepts a call, or says 429."""

from __future__ import annotations

from random import Random

from scheduler.core.bucket import TokenBucket
from scheduler.core.quota import Quota

#: A refused call takes this long to come back, ms.
REFUSAL = 150
#: Back-off: 2^tries seconds, at most so many, times a factor between 0.5 and 1.5.
LONGEST = 32


class ProviderModel:
    """Counts what it lets through; a client that it refuses comes back later.

    Args:
        quota: what it allows.
        random: of the clients' back-off.
    """

    def __init__(self, quota: Quota, random: Random) -> None:
        self._bucket = None if quota.per_second is None else TokenBucket(quota.per_second, quota.burst, 0)
        self._room = quota.concurrency
        self._random = random
        self._tries: dict[str, int] = {}
        self.refused = 0

    def call(self, now: int, name: str) -> int:
        """Answer one call. Returns 0 if it is accepted, else the ms after which its client tries again."""
        if self._room > 0 and (self._bucket is None or self._bucket.tokens(now) > 0):
            self._room -= 1
            if self._bucket is not None:
                self._bucket.take(now, 1)
            self._tries.pop(name, None)
            return 0
        tries = self._tries[name] = self._tries.get(name, -1) + 1
        self.refused += 1
        return REFUSAL + round(1000 * min(LONGEST, 1 << tries) * self._random.uniform(0.5, 1.5))

    def end(self) -> None:
        """An accepted call is over."""
        self._room += 1
