"""Actions that are declared without an app and belong to every app."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import shared_task

from tangram_tasks.declaration import split_options
from tangram_tasks.task import ActionTask


def shared_action(**options: Any) -> Callable[[Callable[..., Any]], ActionTask]:
    """Declare an action for libraries; the options are those of `TangramApp.action`. Raises InvalidAction."""

    def decorate(run: Callable[..., Any]) -> ActionTask:
        celery_options, spec = split_options(run, options)
        declare_task: Any = shared_task
        task: ActionTask = declare_task(base=ActionTask, **celery_options, spec=spec, typing=False)(run)
        return task

    return decorate
