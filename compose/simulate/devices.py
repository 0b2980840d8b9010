"""The devices of one simulated GPU node: aligned cells, and which service each device holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compose.simulate.execution import Execution
from scheduler.core.cells import cells


class Devices:
    """Gives each action a cell: an aligned run of as many devices as it has units.

    A device holds one service, or its part of it; more devices are more replicas, so a cell all of whose devices hold
    the service costs nothing. Otherwise the free cell that lacks it on fewest devices takes it in, of these the one
    unused for longest, and what was there is paged out. Devices can be free and yet no cell of the size: the action
    then waits on the node.

    Args:
        count: devices.
        restores: ms to page in, by service.
    """

    def __init__(self, count: int, restores: Mapping[str, int]) -> None:
        self._restores = restores
        self._free = [True] * count
        self._used = [-1] * count
        self._ready = [0] * count  # ms at which the last page-in is done
        self._resident: list[str | None] = [None] * count
        self._cells: dict[str, range] = {}
        self._stuck: list[Execution] = []
        self.page_ins = 0

    def start(self, now: int, execution: Execution) -> int | None:
        """Place an action. Returns the ms until its service is there, or None if it has to wait for a cell."""
        service = execution.work.service or execution.work.task
        cell = self._cell(service, execution.units)
        if cell is None:
            self._stuck.append(execution)
            return None
        self._cells[execution.name] = cell
        for device in cell:
            self._free[device] = False
        self._take_in(now, service, cell)
        return max(self._ready[device] for device in cell) - now

    def page_in(self, now: int, service: str, devices: Iterable[int]) -> None:
        """Take a service in on those of the devices that nobody uses."""
        self._take_in(now, service, [device for device in devices if self._free[device]])

    def end(self, now: int, execution: Execution) -> list[tuple[Execution, int]]:
        """Take an action's cell back. Returns who has waited for one and starts now, with the ms of the page-in."""
        for device in self._cells.pop(execution.name):
            self._free[device], self._used[device] = True, now
        waiting, self._stuck = self._stuck, []
        placed = [(other, self.start(now, other)) for other in waiting]
        return [(other, restore) for other, restore in placed if restore is not None]

    def _take_in(self, now: int, service: str, devices: Iterable[int]) -> None:
        lacking = [device for device in devices if self._resident[device] != service]
        for device in lacking:
            self._resident[device], self._used[device] = service, now
            self._ready[device] = max(now, self._ready[device]) + self._restores.get(service, 0)
        for device in devices:
            self._ready[device] = max(now, self._ready[device])
        self.page_ins += bool(lacking)

    def _cell(self, service: str, units: int) -> range | None:
        free = [cell for cell in cells(len(self._free), units) if all(self._free[device] for device in cell)]
        return min(free, key=lambda cell: self._rank(service, cell), default=None)

    def _rank(self, service: str, cell: range) -> tuple[int, int]:
        lacking = sum(self._resident[device] != service for device in cell)
        return lacking, max(self._used[device] for device in cell)
