"""Which action has which devices of a GPU node: at most one action per device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tangram_tasks.errors import ServiceUnavailable


class DeviceClaims:
    """Devices by index, each free or held by one action.

    All devices of an action are taken at once, so two actions can never wait for each other.

    Args:
        count: devices.
        clock: seconds that deadlines are read against.
    """

    def __init__(self, count: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._holders: list[str | None] = [None] * count
        self._clock = clock
        self._changed = threading.Condition()

    @contextmanager
    def claim(
        self,
        action: str,
        units: int,
        *,
        deadline: float,
        rank: Callable[[int], int],
        check: Callable[[], None],
    ) -> Iterator[tuple[int, ...]]:
        """Hold `units` devices for the length of the context; yields their indexes.

        Args:
            action: who takes them.
            units: how many.
            deadline: clock value after which waiting ends.
            rank: of a device; lower is preferred.
            check: raises when the action should wait no longer; looked at whenever something changed.

        Raises:
            ServiceUnavailable: not enough devices before the deadline.
        """
        chosen = self._take(action, units, deadline, rank, check)
        try:
            yield chosen
        finally:
            with self._changed:
                for index in chosen:
                    self._holders[index] = None
                self._changed.notify_all()

    def idle(self, index: int) -> bool:
        """Whether nobody holds a device at this moment."""
        return self._holders[index] is None

    def recheck(self) -> None:
        """Let everybody who waits run its check."""
        with self._changed:
            self._changed.notify_all()

    def wait_idle(self, deadline: float) -> bool:
        """Wait until no device is held; False if one still is at the deadline."""
        with self._changed:
            return self._changed.wait_for(self._idle, max(0.0, deadline - self._clock()))

    def _idle(self) -> bool:
        return not any(self._holders)

    def _take(
        self, action: str, units: int, deadline: float, rank: Callable[[int], int], check: Callable[[], None]
    ) -> tuple[int, ...]:
        with self._changed:
            while True:
                check()
                free = [index for index, holder in enumerate(self._holders) if holder is None]
                if len(free) >= units:
                    break
                left = deadline - self._clock()
                if left <= 0:
                    holders = ", ".join(sorted({holder for holder in self._holders if holder}))
                    raise ServiceUnavailable(
                        f"action {action} got no {units} of {len(self._holders)} devices before its deadline; "
                        f"they are held by {holders}"
                    )
                self._changed.wait(left)
            chosen = tuple(sorted(free, key=rank)[:units])
            for index in chosen:
                self._holders[index] = action
            return chosen
