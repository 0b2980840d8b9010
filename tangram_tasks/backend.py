"""The result backend: Celery's Redis one, plus the action's report in every result."""

from __future__ import annotations

from typing import Any

from celery.backends.redis import RedisBackend

REPORT = "tangram"


class TangramBackend(RedisBackend):
    """Stores each result with its ActionReport under the key "tangram"."""

    def _get_result_meta(self, result: Any, state: str, traceback: Any, request: Any, **options: Any) -> dict[str, Any]:
        base: Any = super()  # a private method that celery-types leaves out
        meta: dict[str, Any] = base._get_result_meta(result, state, traceback, request, **options)
        report = getattr(request, "tangram_report", None)
        if report is not None:
            meta[REPORT] = report
        return meta

    def on_task_call(self, producer: Any, task_id: str) -> None:
        """Do nothing: Celery would subscribe on every call; waiting subscribes when it starts."""
