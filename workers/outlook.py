"""What a GPU node knows of the near future: which services actions will use, in the order of their turns."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

#: Future uses that are looked at; with 16 nearly all of the gain was there (simulation).
LOOK_AHEAD = 64


class Outlook:
    """Known future uses: first the actions that wait at this node, then what the scheduler said of its queue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, str] = {}
        self._hint: tuple[str, ...] = ()

    @contextmanager
    def wait(self, action: str, service: str) -> Iterator[None]:
        """Say that an action here waits for a service, for the length of the context."""
        with self._lock:
            self._waiting[action] = service
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[action]

    def hint(self, services: Sequence[str]) -> None:
        """Take over what is known of actions that are not here yet; replaces the hint before.

        Args:
            services: in the order of their next use.
        """
        with self._lock:
            self._hint = tuple(services[:LOOK_AHEAD])

    def next_uses(self) -> dict[str, int]:
        """Return each service's place among the known future uses; 0 is next."""
        with self._lock:
            order = [*self._waiting.values(), *self._hint][:LOOK_AHEAD]
        return {service: place for place, service in reversed(list(enumerate(order)))}
