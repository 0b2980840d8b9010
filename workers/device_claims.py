"""Which action has which devices of a GPU node: at most one action per device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tangram_tasks.errors import ServiceUnavailable
from workers.cells import Cell, CellTree, Want, arrange

#: Actions whose devices are chosen together.
TOGETHER = 8
#: How much one class of `rank` outweighs a larger cell that is broken up.
_RANK = 100.0


@dataclass(slots=True)
class _Waiting:
    """An action that waits, in the order of arrival."""

    choices: tuple[Cell, ...]
    rank: Callable[[int], int]
    chosen: Cell | None = field(default=None)


class DeviceClaims:
    """Devices by index, each free or held by one action.

    All devices of an action are taken at once, so two actions can never wait for each other. Those who wait for the
    same devices are served in the order of arrival; the first few choose together, at the smallest cost for all.

    Args:
        cells: the devices and their cells.
        clock: seconds that deadlines are read against.
    """

    def __init__(self, cells: CellTree, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.cells = cells
        self._holders: list[str | None] = [None] * len(cells.devices)
        self._retired: set[int] = set()
        self._waiting: dict[str, _Waiting] = {}
        self._clock = clock
        self._changed = threading.Condition()

    @property
    def usable(self) -> int:
        """Devices that are not retired."""
        return len(self._holders) - len(self._retired)

    @contextmanager
    def claim(
        self,
        action: str,
        choices: Sequence[Cell],
        *,
        deadline: float,
        rank: Callable[[int], int],
        check: Callable[[], None],
    ) -> Iterator[Cell]:
        """Hold one of the cells for the length of the context; yields the devices' indexes.

        Args:
            action: who takes them.
            choices: the cells that would do, all of one size.
            deadline: clock value after which waiting ends.
            rank: of a device; lower is preferred.
            check: raises when the action should wait no longer; looked at whenever something changed.

        Raises:
            ServiceUnavailable: not enough devices before the deadline.
        """
        chosen = self._take(action, _Waiting(tuple(choices), rank), deadline, check)
        try:
            yield chosen
        finally:
            with self._changed:
                for index in chosen:
                    self._holders[index] = None
                self._changed.notify_all()

    def idle(self, index: int) -> bool:
        """Whether nobody holds a device at this moment, and somebody could."""
        return self._holders[index] is None and index not in self._retired

    def holder(self, index: int) -> str | None:
        """Return the action that holds a device."""
        return self._holders[index]

    def recheck(self) -> None:
        """Let everybody who waits run its check."""
        with self._changed:
            self._changed.notify_all()

    def retire(self, index: int, retired: bool) -> None:
        """Give a device to nobody any more, or again; who holds it keeps it."""
        with self._changed:
            (self._retired.add if retired else self._retired.discard)(index)
            self._changed.notify_all()

    def wait_idle(self, deadline: float) -> bool:
        """Wait until no device is held; False if one still is at the deadline."""
        with self._changed:
            return self._changed.wait_for(self._idle, max(0.0, deadline - self._clock()))

    def _idle(self) -> bool:
        return not any(self._holders)

    def _take(self, action: str, asked: _Waiting, deadline: float, check: Callable[[], None]) -> Cell:
        with self._changed:
            self._waiting[action] = asked
            try:
                while True:
                    if asked.chosen is None:
                        check()
                        self._assign()
                    if asked.chosen is not None:
                        return asked.chosen
                    left = deadline - self._clock()
                    if left <= 0:
                        raise self._too_late(action, asked)
                    self._changed.wait(left)
            finally:
                del self._waiting[action]
                self._changed.notify_all()

    def _assign(self) -> None:
        """Serve all who wait and can be, in the order of arrival.

        Who cannot is passed only by those who take nothing of what would do for it.
        """
        free = {index for index, holder in enumerate(self._holders) if holder is None and index not in self._retired}
        waiting = [(name, one) for name, one in self._waiting.items() if one.chosen is None]
        while waiting and free:
            served = self._serve(waiting[:TOGETHER], free)
            for cell in served:
                free.difference_update(cell)
            waiting = waiting[len(served) :]
            if not served:
                _, blocked = waiting.pop(0)
                free.difference_update(*blocked.choices)

    def _serve(self, first: list[tuple[str, _Waiting]], free: Collection[int]) -> list[Cell]:
        """Choose for as many of the first as can be served at once; returns what they got."""
        while first:
            cells = arrange(free, [self._want(one, free) for _, one in first])
            if cells is not None:
                for (name, one), cell in zip(first, cells, strict=True):
                    one.chosen = cell
                    for index in cell:
                        self._holders[index] = name
                self._changed.notify_all()
                return cells
            first = first[:-1]
        return []

    def _want(self, asked: _Waiting, free: Collection[int]) -> Want:
        choices = tuple(cell for cell in asked.choices if set(cell) <= set(free))
        cost = {cell: _RANK * sum(map(asked.rank, cell)) + self.cells.broken(cell, free) for cell in choices}
        return Want(choices, cost)

    def _too_late(self, action: str, asked: _Waiting) -> ServiceUnavailable:
        holders = ", ".join(sorted({holder for holder in self._holders if holder})) or "nobody"
        units = len(asked.choices[0]) if asked.choices else 0
        retired = f", {len(self._retired)} of them are out of use" if self._retired else ""
        return ServiceUnavailable(
            f"action {action} got no {units} of {len(self._holders)} devices before its deadline; "
            f"they are held by {holders}{retired}"
        )
