"""A device's memory that simulated engines share, and that a probe can look at."""

from __future__ import annotations

import threading


class SimulatedDevice:
    """Who holds how many bytes.

    Args:
        total: bytes.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.most_used = 0
        self._held: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        """What nobody holds."""
        with self._lock:
            return self.total - sum(self._held.values())

    def hold(self, engine: str, nbytes: int) -> bool:
        """Let an engine hold so many bytes; False, and nothing changes, if the device has not enough."""
        with self._lock:
            used = sum(held for name, held in self._held.items() if name != engine) + nbytes
            if used > self.total:
                return False
            self._held[engine] = nbytes
            self.most_used = max(self.most_used, used)
            return True
