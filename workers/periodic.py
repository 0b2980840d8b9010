"""A thread that does something again and again, whatever goes wrong in between."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Periodic:
    """Runs from construction until `stop`.

    Args:
        name: for messages.
        thread: the thread's name.
        work: what to do; what it raises is logged.
        period: seconds between two rounds.
        patience: seconds that the last round gets to end; one that hangs is left behind.
    """

    def __init__(self, name: str, thread: str, work: Callable[[], None], *, period: float, patience: float) -> None:
        self._name, self._work = name, work
        self._period, self._patience = period, patience
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=thread, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Begin no further round. Idempotent."""
        self._end.set()
        self._thread.join(self._patience)

    def _run(self) -> None:
        while not self._end.wait(self._period):
            try:
                self._work()
            except Exception:  # whatever it was, the next round comes
                logger.exception("%s", self._name)
