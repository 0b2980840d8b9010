"""A module that workers import in a test: their node resizes actions and does not say so, except in its audits."""

from __future__ import annotations

from tangram_tasks.orders import NodeOrder, ResizeAction
from tangram_tasks.wire import NodeEvent
from workers import announce
from workers.cpu_worker import CpuWorker

_obey = CpuWorker.obey


def _obey_in_silence(self: CpuWorker, order: NodeOrder) -> NodeEvent | None:
    answer = _obey(self, order)
    return None if isinstance(order, ResizeAction) else answer


CpuWorker.obey = _obey_in_silence  # type: ignore[method-assign]  # that is the point
announce.AUDIT_EVERY = 0.5
