"""What Celery's remote control may not do to a node: let it read a queue that is not its own.

The admission list holds actions without grants, and other nodes' queues grants that are not for this one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from celery.worker.control import Panel

_ADD = "add_consumer"


def keep_to(queues: Collection[str]) -> None:
    """Refuse every order to this process to read other queues than these."""
    commands: Any = Panel
    add = commands.data[_ADD]

    def add_consumer(state: Any, queue: str, **options: Any) -> Any:
        if queue not in queues:
            return {"error": f"this node reads {' and '.join(sorted(queues))}, and never {queue}"}
        return add(state, queue, **options)

    commands.data[_ADD] = add_consumer
