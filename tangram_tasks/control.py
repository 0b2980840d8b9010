"""Celery's remote control, with a revoke that also reaches actions the workers do not know of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery.app.control import Control

from tangram_tasks.control_messages import CancelAction, ControlMessage


def stream_entry(message: ControlMessage) -> dict[Any, Any]:
    """Return a control message as the fields of one stream entry."""
    return {"m": message.model_dump_json()}


class ActionControl(Control):
    """`revoke` also tells the scheduler, which forgets the action if it waits and has it killed if it runs."""

    def revoke(self, task_id: str | Sequence[str], *args: Any, **options: Any) -> Any:
        """Revoke by task id; the arguments are Celery's."""
        app: Any = self.app
        ids = [task_id] if isinstance(task_id, str) else list(task_id)
        app.send_control(*(CancelAction(action=action) for action in ids))
        return super().revoke(ids, *args, **options)
