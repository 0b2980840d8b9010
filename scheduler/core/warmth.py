"""Which service each device of a GPU node ran last: the core's picture of what is resident.

The node decides which devices an action gets. It prefers devices that hold the service and then those used longest
ago; this picture assumes the same, so it is right but for the node's own reasons to differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from scheduler.core.cells import cells

#: Every service can do without all of its devices.
ANY: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class Device:
    """One device.

    Args:
        service: what it holds.
        used: when it was taken last, by a count of events.
        action: who runs there.
    """

    service: str | None = None
    used: int = 0
    action: str | None = None


class Warmth:
    """The devices of one node.

    Args:
        devices: how many.
    """

    def __init__(self, devices: int) -> None:
        self.devices = [Device() for _ in range(devices)]
        self._clock = 0

    def __len__(self) -> int:
        return len(self.devices)

    def __getitem__(self, index: int) -> Device:
        return self.devices[index]

    def __iter__(self) -> Iterator[Device]:
        return iter(self.devices)

    def copy(self) -> Warmth:
        """Return a copy to plan on."""
        copy = Warmth(0)
        copy.devices = [replace(device) for device in self.devices]
        copy._clock = self._clock
        return copy

    def resize(self, devices: int) -> None:
        """Take over another number of devices; the last ones come and go."""
        del self.devices[devices:]
        self.devices += [Device() for _ in range(devices - len(self.devices))]

    def occupy(self, action: str, service: str | None, units: int, spare: Mapping[str, int] = ANY) -> list[int]:
        """Let an action run on as many idle devices; fewer if the node shrank below what it holds.

        Args:
            action: its id.
            service: what it needs there.
            units: how many.
            spare: devices that each service could do without; all, if it is not named.

        Returns:
            Those that did not hold its service.
        """
        self._clock += 1
        chosen: Sequence[int] | None = self.cell(service, units, spare)
        if chosen is None:
            rank = partial(self._rank, service, spare)
            loose = sorted(([index] for index in range(len(self.devices)) if self._idle((index,))), key=rank)
            chosen = [index for cell in loose[:units] for index in cell]
        cold = [index for index in chosen if self.devices[index].service != service]
        for index in chosen:
            device = self.devices[index]
            device.action, device.used = action, self._clock
            device.service = service if service is not None else device.service
        return cold

    def cell(self, service: str | None, units: int, spare: Mapping[str, int] = ANY) -> range | None:
        """Return the idle cell that suits an action best, or None if there is none; arguments as of `occupy`."""
        idle = (cell for cell in cells(len(self.devices), units) if self._idle(cell))
        return min(idle, key=partial(self._rank, service, spare), default=None)

    def cost(self, service: str | None, cell: Sequence[int], spare: Mapping[str, int]) -> tuple[int, int]:
        """Return what a cell costs that takes a service in: devices others are then short of, and page-ins."""
        cold = [index for index in cell if self.devices[index].service != service]
        return self.loss(spare, cold), len(cold)

    def occupants(self) -> set[str]:
        """Return who runs on some device."""
        return {device.action for device in self.devices if device.action is not None}

    def leave(self, action: str) -> None:
        """Note that an action ended; its service stays on its devices."""
        for device in self.devices:
            if device.action == action:
                device.action = None

    def page_in(self, service: str, devices: Iterable[int]) -> None:
        """Note that idle devices are told to take a service in."""
        self._clock += 1
        for index in devices:
            self.devices[index].service, self.devices[index].used = service, self._clock

    def idle(self) -> dict[str, int]:
        """Return the size of the largest cell of idle devices that holds a service, by service."""
        largest: dict[str, int] = {}
        for exponent in range(len(self.devices).bit_length()):
            for cell in cells(len(self.devices), 1 << exponent):
                service = self.devices[cell[0]].service
                if service is not None and self._idle(cell) and all(self.devices[i].service == service for i in cell):
                    largest[service] = 1 << exponent
        return largest

    def holds(self, service: str) -> int:
        """Return how many devices, idle or not, hold a service."""
        return sum(device.service == service for device in self.devices)

    def loss(self, spare: Mapping[str, int], indexes: Iterable[int]) -> int:
        """Return how many devices services would be short of if these took in another one."""
        taken = Counter(self.devices[index].service for index in indexes)
        return sum(
            max(0, count - max(0, spare.get(service, count))) for service, count in taken.items() if service is not None
        )

    def _idle(self, indexes: Iterable[int]) -> bool:
        return all(self.devices[index].action is None for index in indexes)

    def _rank(self, service: str | None, spare: Mapping[str, int], indexes: Sequence[int]) -> tuple[int, int, int]:
        return *self.cost(service, indexes, spare), max(self.devices[index].used for index in indexes)
