"""Looks after a GPU node from time to time: leases that nobody ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)

PERIOD = 1.0  # s between two looks


class GpuUpkeep:
    """A thread that looks, from construction until `stop`.

    Args:
        node: the node's name.
        reap: takes back leases that nobody ended, and returns their actions.
    """

    def __init__(self, node: str, reap: Callable[[], list[str]]) -> None:
        self._node, self._reap = node, reap
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tangram-gpu-upkeep", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Look once."""
        for action in self._reap():
            logger.warning(
                "node %s: action %s was gone or far too late; its devices were taken back", self._node, action
            )

    def stop(self) -> None:
        """Look no more. Idempotent."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(PERIOD):
            try:
                self.look()
            except Exception:  # whatever it was, the next look comes
                logger.exception("upkeep of node %s", self._node)
