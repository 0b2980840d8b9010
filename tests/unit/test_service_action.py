"""Own reward code: what its declaration asks for, and what its body is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tangram_tasks import ConfigurationError, InvalidAction, Sandbox, TangramApp
from tangram_tasks.context import ActionContext, ServiceHandle
from tangram_tasks.wire import GRANT_HEADER


class Judge:
    """A service that says what it was asked."""

    def call(self, method: str, payload: dict[str, Any]) -> Any:
        return [method, payload]


class Granting:
    """A worker's runtime that grants the judge."""

    def claim(self, request: Any) -> None:
        """Nothing to claim."""

    def store(self, request: Any, payload: bytes, seconds: int) -> None:
        """Nowhere to store."""

    @contextmanager
    def resources(self, request: Any) -> Iterator[ActionContext]:
        yield ActionContext(action="a1", units=2, deadline=1e9, service=Judge())


@pytest.fixture
def app() -> TangramApp:
    return TangramApp("services", broker="redis://127.0.0.1:1/0", set_as_current=False)


def test_its_spec_names_the_service_and_the_devices(app: TangramApp) -> None:
    @app.service_action(service="judge", gpu=(1, 2, 4), timeout=9)
    def grade1(service: ServiceHandle, answer: str) -> Any:
        return service.call("score", {"answer": answer})

    spec = grade1.spec_for(("x",), {})
    assert spec is not None
    assert (spec.service, spec.demand.sizes, spec.timeout) == ("judge", {"gpu": (1, 2, 4)}, 9)
    with pytest.raises(InvalidAction, match="missing a required argument: 'answer'"):
        grade1.spec_for((), {})


def test_its_body_receives_the_service_first(app: TangramApp, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.service_action(service="judge")
    def grade2(judge: ServiceHandle, answer: str) -> Any:
        return judge.call("score", {"answer": answer})

    app.runtime = Granting()
    grade2.push_request(**{GRANT_HEADER: {"id": "g"}})
    try:
        assert grade2("x") == ["score", {"answer": "x"}]
    finally:
        grade2.pop_request()


def test_a_direct_call_is_given_one_by_the_caller(app: TangramApp) -> None:
    @app.service_action(service="judge")
    def grade3(judge: ServiceHandle, answer: str) -> Any:
        return judge.call("score", {"answer": answer})

    assert grade3(Judge(), "x") == ["score", {"answer": "x"}]


def test_eager_mode_cannot_give_one(app: TangramApp) -> None:
    app.conf.update(task_always_eager=True, task_eager_propagates=True)

    @app.service_action(service="judge")
    def grade4(judge: ServiceHandle) -> None:
        """Is not run."""

    with pytest.raises(ConfigurationError, match="needs a service: eager mode cannot give one"):
        grade4.delay()


def test_wrong_declarations_are_refused(app: TangramApp) -> None:
    with pytest.raises(InvalidAction, match="action nothing: it needs a first parameter"):

        @app.service_action(service="judge")
        def nothing() -> None:
            """Takes nothing."""

    with pytest.raises(InvalidAction, match="action both: GPU nodes have no sandboxes"):

        @app.service_action(service="judge")
        def both(sandbox: Sandbox) -> None:
            """Takes the wrong thing."""

    with pytest.raises(InvalidAction, match="sizes of gpu must rise"):

        @app.service_action(service="judge", gpu=(2, 1))
        def falling(service: ServiceHandle) -> None:
            """Is declared wrongly."""
