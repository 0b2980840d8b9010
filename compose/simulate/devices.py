"""The devices of one simulated GPU node: aligned cells, and which service is resident in which."""

from __future__ import annotations

from collections.abc import Mapping

from compose.simulate.execution import Execution


class Devices:
    """Gives each action a cell: an aligned run of as many devices as it has units.

    A cell where the service is resident at that size costs nothing. Otherwise the free cell that was unused for
    longest takes the service in, and what was there is paged out. Devices can be free and yet no cell of the size:
    the action then waits on the node.

    Args:
        count: devices.
        restores: ms to page in, by service.
    """

    def __init__(self, count: int, restores: Mapping[str, int]) -> None:
        self._restores = restores
        self._free = [True] * count
        self._used = [-1] * count
        self._resident: dict[tuple[int, int], str] = {}
        self._cells: dict[str, tuple[int, int]] = {}
        self._stuck: list[Execution] = []
        self.page_ins = 0

    def start(self, execution: Execution) -> int | None:
        """Place an action. Returns the ms of its page-in, or None if it has to wait for a cell."""
        service = execution.work.service or execution.work.task
        cell = self._cell(service, execution.units)
        if cell is None:
            self._stuck.append(execution)
            return None
        self._cells[execution.name] = cell
        self._mark(cell, free=False)
        if self._resident.get(cell) == service:
            return 0
        for other in [other for other in self._resident if _overlap(cell, other)]:
            del self._resident[other]
        self._resident[cell] = service
        self.page_ins += 1
        return self._restores.get(service, 0)

    def end(self, now: int, execution: Execution) -> list[tuple[Execution, int]]:
        """Take an action's cell back. Returns who has waited for one and starts now, with the ms of the page-in."""
        cell = self._cells.pop(execution.name)
        self._mark(cell, free=True)
        for device in range(cell[0], sum(cell)):
            self._used[device] = now
        waiting, self._stuck = self._stuck, []
        placed = [(other, self.start(other)) for other in waiting]
        return [(other, restore) for other, restore in placed if restore is not None]

    def _cell(self, service: str, units: int) -> tuple[int, int] | None:
        width = 1 << (units - 1).bit_length()
        free = [
            (start, units)
            for start in range(0, len(self._free) - units + 1, width)
            if all(self._free[start : start + units])
        ]
        warm = [cell for cell in free if self._resident.get(cell) == service]
        return min(warm or free, key=lambda cell: max(self._used[cell[0] : sum(cell)]), default=None)

    def _mark(self, cell: tuple[int, int], *, free: bool) -> None:
        self._free[cell[0] : sum(cell)] = [free] * cell[1]


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < sum(other) and other[0] < sum(one)
