"""Resizes ordered from outside, and grants that a node refuses, over real processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from compose.embedded import Stack
from compose.stack_config import CpuNodeConfig, StackConfig
from tangram_tasks import NoCapacity, TangramApp
from tangram_tasks.backend import REPORT
from tangram_tasks.control_messages import ResizeRequest
from tangram_tasks.tools import bash
from tests.support import actions
from tests.waiting import wait_until

WAIT = 30


@contextmanager
def client(*imports: str) -> Iterator[TangramApp]:
    """Yield a client of a deployment whose one node has two cores and no isolation, and imports these modules."""
    config = StackConfig(
        persistent=False,
        cpu=(CpuNodeConfig(name="cpu-1", cores=2, backend="local"),),
        imports=imports,
        unsafe_local=True,
    )
    with Stack(config) as stack:
        app = TangramApp("client", broker=stack.broker_url)
        app.set_current()
        try:
            yield app
        finally:
            app.close()


@pytest.fixture(scope="module")
def app() -> Iterator[TangramApp]:
    with client("tests.support.actions") as app:
        yield app


def started(app: TangramApp, action: str) -> None:
    wait_until(lambda: app.redis.get("running") == action.encode(), "it runs")


def test_a_running_action_is_resized_on_request(app: TangramApp) -> None:
    with app.trajectory(memory="64MiB"):
        result = actions.sizes.delay(2)
        started(app, result.id)
        app.send_control(ResizeRequest(action=result.id, units=1))
        beside = bash.delay("true")
        assert beside.get(timeout=WAIT)["exit_code"] == 0, "what it gave up is granted to another"
        app.send_control(ResizeRequest(action=result.id, units=2))
        assert result.get(timeout=WAIT) == [2, 1, 2]
    report = app.backend.get_task_meta(result.id)[REPORT]
    assert report["units"] == 2
    assert [units for _, units in report["units_over_time"]] == [2, 1, 2]
    times = [seconds for seconds, _ in report["units_over_time"]]
    assert times[0] == 0
    assert times == sorted(times)


def test_what_may_not_be_resized_is_not(app: TangramApp) -> None:
    with app.trajectory(memory="64MiB"):
        result = actions.sizes.delay(1)
        started(app, result.id)
        app.send_control(ResizeRequest(action=result.id, units=7), ResizeRequest(action="nobody", units=1))
        app.send_control(ResizeRequest(action=result.id, units=1))
        assert result.get(timeout=WAIT) == [2, 1]


def test_a_rigid_action_keeps_its_size(app: TangramApp) -> None:
    with app.trajectory(memory="64MiB"):
        result = actions.rigid.delay()
        started(app, result.id)
        app.send_control(ResizeRequest(action=result.id, units=1))
        assert result.get(timeout=WAIT) == [2]


def test_a_grant_that_the_node_refuses_is_chosen_again() -> None:
    with client("tests.support.tight_node") as app, app.trajectory(memory="64MiB"):
        result = bash.delay("true")
        assert result.get(timeout=WAIT)["exit_code"] == 0
        assert app.backend.get_task_meta(result.id)[REPORT]["attempts"] == 1, "a refusal is no start"
        with pytest.raises(NoCapacity, match="granted 3 times to nodes that had no room"):
            bash.using(cpu=2).delay("true").get(timeout=WAIT)
        assert bash.delay("true").get(timeout=WAIT)["exit_code"] == 0, "the books are whole"


def test_an_order_that_was_lost_is_given_again() -> None:
    with client("tests.support.actions", "tests.support.deaf_node") as app, app.trajectory(memory="64MiB"):
        result = actions.sizes.delay(1)
        started(app, result.id)
        app.send_control(ResizeRequest(action=result.id, units=1))
        beside = bash.delay("true")
        assert beside.get(timeout=WAIT)["exit_code"] == 0, "what it gave up is granted to another"
        assert result.get(timeout=WAIT) == [2, 1]


def test_what_a_node_never_answers_its_audit_tells() -> None:
    with client("tests.support.actions", "tests.support.silent_node") as app:
        with app.trajectory(memory="64MiB"):
            result = actions.sizes.delay(2)
            started(app, result.id)
            app.send_control(ResizeRequest(action=result.id, units=1))
            beside = bash.delay("true")
            assert beside.get(timeout=WAIT)["exit_code"] == 0, "what it gave up is granted to another"
            assert not result.ready()
        assert app.redis.hgetall(app.keys.counters) == {b"resizes_unanswered": b"1", b"audit_healed": b"1"}
