"""What a provider said to one of our keys: not now. The node closes at once; the scheduler tells all others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

#: Seconds after which a provider that gave no Retry-After may be called again.
RETRY_AFTER = 1.0
#: No provider closes for longer, s.
LONGEST = 86_400.0


class ApiGate:
    """Until when nobody on this node may call a provider, by lane. Thread safe.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._everybody = 0.0
        self._until: dict[int, float] = {}

    def close(self, seconds: float, lane: int | None) -> None:
        """Let nobody call for so many seconds; `lane` None means all lanes."""
        until = self._clock() + seconds
        with self._lock:
            if lane is None:
                self._everybody = max(self._everybody, until)
            else:
                self._until[lane] = max(self._until.get(lane, 0.0), until)

    def closed_for(self, lane: int) -> float:
        """Return for how many seconds a lane stays closed; 0 if it is open."""
        with self._lock:
            return max(0.0, max(self._everybody, self._until.get(lane, 0.0)) - self._clock())


def retry_after(text: str | None, now: datetime | None = None) -> float:
    """Return the seconds that a Retry-After header asks for: a number, or a date; RETRY_AFTER if it has neither."""
    if not text:
        return RETRY_AFTER
    try:
        if text.isdecimal():
            seconds = float(text)
        else:
            date = parsedate_to_datetime(text)
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            seconds = (date - (now or datetime.now(UTC))).total_seconds()
    except ValueError:
        return RETRY_AFTER
    return min(max(0.0, seconds), LONGEST)
