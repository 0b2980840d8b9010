"""How many sandboxes are made at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

CREATORS = 4  # more only queue inside the engine
QUIET_TIME = 1.0  # s without an action after which a node counts as idle
_LOOK = 0.05  # s


class CreationGate:
    """Lets in four on an idle node; beside actions half as many as there are cores that none holds, but one at least.

    The engine keeps up to two cores busy for each sandbox, beside and not within what actions were granted.
    Thread safe.

    Args:
        free_cores: how many cores no action holds now.
        clock: monotonic seconds.
    """

    def __init__(self, free_cores: Callable[[], float], clock: Callable[[], float] = time.monotonic) -> None:
        self._free_cores, self._clock = free_cores, clock
        self._changed = threading.Condition()
        self._inside = self._waiting = 0
        self._last_action = float("-inf")

    @property
    def quiet(self) -> bool:
        """Whether nobody makes a sandbox or waits to."""
        return self._inside + self._waiting == 0

    @property
    def room(self) -> int:
        """How many may be made at once now."""
        if self._clock() - self._last_action > QUIET_TIME:
            return CREATORS
        return max(1, min(CREATORS, int(self._free_cores() / 2)))

    def note_action(self) -> None:
        """An action starts or ends on the node."""
        self._last_action = self._clock()

    @contextlib.contextmanager
    def enter(self) -> Iterator[None]:
        """Wait for a place, and hold it for the length of the block."""
        with self._changed:
            self._waiting += 1
            while self._inside >= self.room:
                self._changed.wait(_LOOK)
            self._waiting -= 1
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()
