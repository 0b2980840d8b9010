"""Looks after a GPU node from time to time: leases that nobody ended, devices that do not answer."""

from __future__ import annotations

import logging
from collections.abc import Callable

from workers.device_health import DeviceHealth
from workers.periodic import Periodic

logger = logging.getLogger(__name__)

PERIOD = 1.0  # s between two looks
HEALTH_EVERY = 5  # looks
_LAST_LOOK = 5.0  # s


class GpuUpkeep:
    """A thread that looks, from construction until `stop`.

    Args:
        node: the node's name.
        reap: takes back leases that nobody ended, and returns their actions.
        health: of the devices; None if they cannot fail by themselves.
    """

    def __init__(self, node: str, reap: Callable[[], list[str]], health: DeviceHealth | None) -> None:
        self._node, self._reap, self._health = node, reap, health
        self._looks = 0
        self._rounds = Periodic(
            f"upkeep of node {node}", "tangram-gpu-upkeep", self.look, period=PERIOD, patience=_LAST_LOOK
        )

    def look(self) -> None:
        """Look once."""
        self._looks += 1
        if self._health is not None and self._looks % HEALTH_EVERY == 0:
            self._health.look()
        for action in self._reap():
            logger.warning(
                "node %s: action %s was gone or far too late; its devices were taken back", self._node, action
            )

    def stop(self) -> None:
        """Look no more; a look that hangs (in the driver, or at an engine) is left behind. Idempotent."""
        self._rounds.stop()
