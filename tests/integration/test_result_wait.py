"""A result is found although nobody told of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from celery.result import AsyncResult, ResultSet

from tangram_tasks import TangramApp

LIMIT = 20


@pytest.fixture
def app(clean_redis_url: str) -> Iterator[TangramApp]:
    with TangramApp("client", broker=clean_redis_url, set_as_current=False) as app:
        yield app
        app.redis.close()


@pytest.fixture
def untold(app: TangramApp) -> Iterator[list[Any]]:
    """Two results that are stored half a second later as a worker does it, but told to nobody: as if the waiters'
    subscriptions had come too late.
    """
    results: list[Any] = [AsyncResult(name, app=app) for name in "ab"]
    timer = threading.Timer(0.5, _store, (app, "a", "b"))
    timer.start()
    yield results
    timer.join()


def _store(app: TangramApp, *names: str) -> None:
    backend: Any = app.backend
    for name in names:
        meta = backend.encode({"status": "SUCCESS", "result": name, "traceback": None, "children": [], "task_id": name})
        app.redis.set(backend.get_key_for_task(name), meta)


def test_a_result_that_was_not_told_is_found(untold: list[Any]) -> None:
    assert untold[0].get(timeout=LIMIT) == "a"


def test_results_of_a_group_that_were_not_told_are_found(app: TangramApp, untold: list[Any]) -> None:
    assert ResultSet(untold, app=app).get(timeout=LIMIT) == ["a", "b"]
