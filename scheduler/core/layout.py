"""Which services the devices of all GPU nodes hold, and which they should: page-in hints ahead of need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from scheduler.core.cells import cells
from scheduler.core.demand import Demand
from scheduler.core.events import Action, PageIn
from scheduler.core.gpu_node import GpuNode


class Layout:
    """What was asked of the devices of a pool lately, and what they hold.

    Args:
        nodes: of the pool, by name; the caller changes them.
    """

    def __init__(self, nodes: Mapping[str, GpuNode]) -> None:
        self._nodes = nodes
        self._demand = Demand()
        self._wanted: Mapping[str, int] | None = None

    def note(self, action: Action) -> None:
        """Count an action that came to the pool."""
        self._demand.note(action)
        self._wanted = None

    def spare(self) -> dict[str, int]:
        """Return how many devices hold a service beyond what is wanted of it, by service; negative if too few do."""
        held, wanted = self._held(), self._plan()
        return {service: held[service] - wanted.get(service, 0) for service in held}

    def hints(self) -> list[PageIn]:
        """Return which idle devices should take in what, the most useful first; from then on they count as having it.

        Only devices are used that nobody runs on and that hold nothing, or more of a service than is wanted of it.
        """
        found = (self._hint(service, units) for service, units in self._plan().items())
        return [hint for hint in found if hint is not None]

    def _plan(self) -> Mapping[str, int]:
        if self._wanted is None:
            self._wanted = self._demand.wanted(sum(len(node.devices) for node in self._nodes.values()), self._held())
        return self._wanted

    def _held(self) -> Counter[str]:
        held = (device.service for node in self._nodes.values() for device in node.devices)
        return Counter(service for service in held if service is not None)

    def _hint(self, service: str, units: int) -> PageIn | None:
        """Return the hint that completes the cell which lacks fewest devices; None if one is complete or none free."""
        best = min(self._choices(service, units), default=None)
        if best is None or not best[2]:
            return None
        _, _, devices, node = best
        self._nodes[node].devices.page_in(service, devices)
        return PageIn(node, service, devices)

    def _choices(self, service: str, units: int) -> Iterator[tuple[int, int, tuple[int, ...], str]]:
        spare = self.spare()
        for node in self._nodes.values():
            if node.draining or service not in node.services:
                continue
            devices = node.devices
            for cell in cells(len(devices), units):
                lacking = tuple(index for index in cell if devices[index].service != service)
                if all(devices[index].action is None for index in lacking) and not devices.loss(spare, lacking):
                    yield len(lacking), max((devices[index].used for index in lacking), default=0), lacking, node.name
