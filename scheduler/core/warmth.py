"""Which service each device of a GPU node ran last: the core's picture of what is resident.

The node decides which devices an action gets and what is paged out. It prefers devices that hold the service and
then the one used longest ago; this picture assumes the same, so it is right but for the node's own reasons to differ.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Device:
    service: str | None = None
    used: int = 0
    action: str | None = None


class Warmth:
    """The devices of one node.

    Args:
        devices: how many.
    """

    def __init__(self, devices: int) -> None:
        self._devices = [_Device() for _ in range(devices)]
        self._clock = 0

    def resize(self, devices: int) -> None:
        """Take over another number of devices; the last ones come and go."""
        del self._devices[devices:]
        self._devices += [_Device() for _ in range(devices - len(self._devices))]

    def occupy(self, action: str, service: str | None, units: int) -> None:
        """Let an action run on as many idle devices; fewer if the node shrank below what it holds."""
        idle = [device for device in self._devices if device.action is None]
        idle.sort(key=lambda device: (device.service != service, device.used))
        self._clock += 1
        for device in idle[:units]:
            device.action, device.used = action, self._clock
            device.service = service if service is not None else device.service

    def leave(self, action: str) -> None:
        """Note that an action ended; its service stays on its devices."""
        for device in self._devices:
            if device.action == action:
                device.action = None

    def idle(self) -> dict[str, int]:
        """Return the idle devices by the service they hold."""
        counts: dict[str, int] = {}
        for device in self._devices:
            if device.action is None and device.service is not None:
                counts[device.service] = counts.get(device.service, 0) + 1
        return counts
