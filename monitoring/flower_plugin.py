"""Columns of ours in Flower's list of tasks: Demand, Granted, Node, Queued, Overhead.

The scheduler sends them for many actions at a time in the event `tangram-actions`. A row may come before Flower knows
the task; it is kept until then.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import flower.events
from celery.events import state
from flower.views.tasks import TASK_COLUMNS

#: Slug to header of each column, in the order of an event's row after the task's id.
COLUMNS = {
    "demand": "Demand",
    "granted": "Granted",
    "node": "Node",
    "queued": "Queued",
    "overhead": "Overhead",
}
_CELERYS: Any = state  # its stubs lack most of it

#: Rows kept for tasks that Flower does not know yet.
EARLY = 10_000


class ActionTask(state.Task):
    """A task with our columns; they are fields, so that Flower's copies and its database keep them."""

    demand = granted = node = queued = overhead = ""
    _fields = (*_CELERYS.Task._fields, *COLUMNS)


class ActionState(flower.events.EventsState):  # type: ignore[misc]  # Flower has no types
    """Flower's memory of tasks, which also takes in our event."""

    Task = ActionTask

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._early: OrderedDict[str, dict[str, str]] = OrderedDict()
        self.handlers["tangram"] = self._take_rows

    def event(self, event: dict[str, Any]) -> None:
        """Take in any event."""
        super().event(event)
        uuid = event.get("uuid", "")
        if uuid in self._early and uuid in self.tasks:
            vars(self.tasks[uuid]).update(self._early.pop(uuid))

    def _take_rows(self, subject: str, event: dict[str, Any]) -> None:
        for uuid, *cells in event.get("rows", ()):
            columns = {name: str(cell) for name, cell in zip(COLUMNS, cells, strict=False)}
            if uuid in self.tasks:
                vars(self.tasks[uuid]).update(columns)
            else:
                self._early[uuid] = columns
        while len(self._early) > EARLY:
            self._early.popitem(last=False)


def install() -> None:
    """Put the columns into the Flower of this process; call before it starts."""
    flower.events.EventsState = ActionState
    TASK_COLUMNS.update(COLUMNS)
