"""Which devices of a node still work, as its driver says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from workers.devices import Health

logger = logging.getLogger(__name__)

#: Looks in a row without an answer after which a device is not given out.
PATIENCE = 3


class DeviceHealth:
    """Takes devices out of use that are lost, or do not answer; the latter come back when they do.

    Args:
        ids: of the devices, by index.
        poll: asks the driver.
        retire: gives a device, by index, to nobody any more, or again.
        lose: is told of a device, by index, that what runs there will not end well.
    """

    def __init__(
        self,
        ids: Sequence[str],
        poll: Callable[[Collection[str]], dict[str, Health]],
        retire: Callable[[int, bool], None],
        lose: Callable[[int], None],
    ) -> None:
        self._ids = ids
        self._poll = poll
        self._retire = retire
        self._lose = lose
        self._silent = dict.fromkeys(ids, 0)
        self._out: set[str] = set()
        self._lost: set[str] = set()

    def look(self) -> None:
        """Look once."""
        found = self._poll(self._ids)
        for index, device in enumerate(self._ids):
            health = found.get(device, "unknown")
            self._silent[device] = 0 if health == "ok" else self._silent[device] + 1
            self._tell_lost(index, device, health)
            out = health == "lost" or self._silent[device] >= PATIENCE
            if out == (device in self._out) or (health == "unknown" and device in self._out):
                continue
            (self._out.add if out else self._out.discard)(device)
            self._retire(index, out)
            logger.error("GPU %s is %s: it is %s use", device, health, "out of" if out else "back in")

    def _tell_lost(self, index: int, device: str, health: Health) -> None:
        if health == "lost" and device not in self._lost:
            self._lost.add(device)
            self._lose(index)
        elif health == "ok":
            self._lost.discard(device)
