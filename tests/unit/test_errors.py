from __future__ import annotations

import inspect
import json

import pytest

from tangram_tasks import TangramApp, errors

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TangramError)]


@pytest.fixture(scope="module")
def backend() -> object:
    return TangramApp("errors", broker="redis://127.0.0.1:1/0", set_as_current=False).backend


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_survives_the_result_backend(kind: type[errors.TangramError], backend: object) -> None:
    error = kind("what happened", 2.5) if issubclass(kind, errors.NoCapacity) else kind("what happened")
    prepared = backend.prepare_exception(error)  # type: ignore[attr-defined]  # celery-types leaves it out
    back = backend.exception_to_python(json.loads(json.dumps(prepared)))  # type: ignore[attr-defined]  # same
    assert type(back) is kind
    assert str(back) == str(error)


def test_no_capacity_keeps_retry_after() -> None:
    assert errors.QuotaExhausted("full", 3.0).retry_after == 3.0
    assert "retry after 3 s" in str(errors.QuotaExhausted("full", 3.0))


def test_out_of_memory_is_not_celerys_own() -> None:
    assert not issubclass(errors.ActionOutOfMemory, MemoryError), "Celery kills the worker on MemoryError"
