"""A module that workers import in a test: their node then misses every first order to resize an action."""

from __future__ import annotations

from tangram_tasks.orders import NodeOrder, ResizeAction
from tangram_tasks.wire import NodeEvent
from workers.cpu_worker import CpuWorker

_obey = CpuWorker.obey
_missed: set[tuple[str, int]] = set()


def _obey_the_second_time(self: CpuWorker, order: NodeOrder) -> NodeEvent | None:
    if isinstance(order, ResizeAction) and (order.grant, order.turn) not in _missed:
        _missed.add((order.grant, order.turn))
        return None
    return _obey(self, order)


CpuWorker.obey = _obey_the_second_time  # type: ignore[method-assign]  # that is the point
