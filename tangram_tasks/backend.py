"""The result backend: Celery's Redis one, plus the action's report in every result."""

from __future__ import annotations

from typing import Any

from celery.app.task import Context
from celery.backends.redis import RedisBackend

from tangram_tasks.journal import CALL
from tangram_tasks.result_consumer import ResultConsumer
from tangram_tasks.wire import GRANT_HEADER, HEADER

REPORT = "tangram"


class TangramBackend(RedisBackend):
    """Stores each result with its ActionReport under the key "tangram".

    On a worker the result of a granted action is stored only while its grant stands: whoever lost it stores nothing.
    """

    ResultConsumer = ResultConsumer
    app: Any  # celery-types leaves these two out
    expires: int

    def _store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **options: Any
    ) -> Any:
        runtime = getattr(self.app, "runtime", None)
        # Celery also comes with a bare stand-in for requests of tasks that it does not know.
        granted = isinstance(request, Context) and request.id == task_id and request.get(GRANT_HEADER)
        if runtime is None or not granted:
            base: Any = super()  # a private method that celery-types leaves out
            return base._store_result(task_id, result, state, traceback, request=request, **options)
        meta = self._get_result_meta(result=result, state=state, traceback=traceback, request=request)
        meta["task_id"] = task_id
        header = request.get(HEADER) or {}
        if header.get("key") is not None:
            meta[CALL] = header.get("call")
        seconds = self.app.settings.journal_expires if CALL in meta else self.expires
        runtime.store(request, self.encode(meta), seconds)
        return result

    def _get_result_meta(self, result: Any, state: Any, traceback: Any, request: Any, **options: Any) -> dict[str, Any]:
        base: Any = super()
        meta: dict[str, Any] = base._get_result_meta(result, state, traceback, request, **options)
        report = getattr(request, "tangram_report", None)
        if report is not None:
            meta[REPORT] = report
        return meta

    def on_task_call(self, producer: Any, task_id: str) -> None:
        """Do nothing: Celery would subscribe on every call; waiting subscribes when it starts."""
