"""A thread that does a duty again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Janitor:
    """Starts at once; what its duty raises is logged, and tried again next time.

    Args:
        name: of the thread.
        duty: what to do.
        every: s between two times.
    """

    def __init__(self, name: str, duty: Callable[[], None], every: float) -> None:
        self._duty, self._every = duty, every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the present duty. Idempotent."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                self._duty()
            except Exception:
                logger.exception("%s failed; it is tried again", self._thread.name)
