"""How long to wait before a child that ended is started again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubling waits. Times are in seconds.

    Args:
        first: after the first end; doubles with every further one.
        limit: never longer than this.
        healthy: a child that ran this long waits only `first` again.
    """

    first: float = 0.1
    limit: float = 10.0
    healthy: float = 10.0

    def next(self, previous: float | None, uptime: float) -> float:
        """Return the wait after a run of `uptime`, when the wait before that run was `previous`."""
        if previous is None or uptime >= self.healthy:
            return self.first
        return min(self.limit, 2 * previous)
