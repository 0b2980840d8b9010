"""What Celery promises, when the scheduler itself ends an action: real processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from celery import chain, chord
from celery.exceptions import ChordError, TaskRevokedError

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, CpuNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import Infeasible, NodeLost, QuotaExhausted, TangramApp
from tests.support import actions
from tests.waiting import wait_until

WAIT = 20
SLOTS = 4


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=SLOTS)}
    config = StackConfig(
        api=(ApiNodeConfig(name="api-1", providers=providers),),
        cpu=(CpuNodeConfig(name="cpu-1", cores=1, memory_mib=100, backend="local"),),
        imports=("tests.support.actions",),
        unsafe_local=True,
        settings={"heartbeat": "0.3", "node_timeout": "2", "leader_lease": "1", "start_lease": "2"},
    )
    with Stack(config) as stack:
        yield stack


@pytest.fixture(autouse=True)
def _books_are_empty_afterwards(app: TangramApp) -> Iterator[None]:
    yield
    books = (app.keys.pending, app.keys.grants, app.keys.running, app.keys.raws)
    wait_until(lambda: not any(app.redis.hlen(book) for book in books), "the books are empty")


def epitaph(app: TangramApp, action: str) -> str:
    found: Any = app.redis.hget("epitaphs", action)
    return (found or b"").decode()


def test_an_errback_gets_request_error_and_traceback(app: TangramApp) -> None:
    result = actions.huge.apply_async(link_error=actions.epitaph.s())
    with pytest.raises(Infeasible, match="cpu-1"):
        result.get(timeout=WAIT)
    wait_until(lambda: epitaph(app, result.id) == "Infeasible", "the errback was called with the error")


def test_an_errback_hears_of_an_expired_wait(app: TangramApp) -> None:
    busy = [actions.nap.delay(1.0) for _ in range(SLOTS)]
    result = actions.add.using(max_queue=0.2, link_error=actions.epitaph.s()).delay(1, 1)
    with pytest.raises(QuotaExhausted) as caught:
        result.get(timeout=WAIT)
    assert caught.value.retry_after > 0
    wait_until(lambda: epitaph(app, result.id) == "QuotaExhausted", "the errback was called")
    for one in busy:
        one.get(timeout=WAIT)


def test_a_chain_ends_with_the_failure_of_its_part(app: TangramApp) -> None:
    before = app.redis.hget("executions", "after-huge")
    tail = chain(actions.huge.si(), actions.counted.si("after-huge")).delay()
    with pytest.raises(Infeasible):
        tail.get(timeout=WAIT)
    assert app.redis.hget("executions", "after-huge") == before


def test_a_chord_fails_with_its_part_and_its_errback_is_called(app: TangramApp) -> None:
    body = actions.total.s().on_error(actions.epitaph.s())
    result = chord([actions.add.s(1, 1), actions.huge.si()], body).delay()
    with pytest.raises(ChordError, match="Infeasible"):
        app.AsyncResult(result.id).get(timeout=WAIT)
    wait_until(lambda: bool(epitaph(app, result.id)), "the body's errback was called")


def _changed(app: TangramApp, claims: object) -> bool:
    return app.redis.hvals(app.keys.running) != claims


def test_an_errback_hears_of_a_lost_node(stack: Stack, app: TangramApp) -> None:
    result = actions.nap.using(link_error=actions.epitaph.s()).delay(20.0)
    for _ in range(3):  # max_attempts
        wait_until(lambda: bool(app.redis.hlen(app.keys.running)), "it runs")
        claims = app.redis.hvals(app.keys.running)
        stack.kill("api-1")
        wait_until(partial(_changed, app, claims), "it was taken back")
    with pytest.raises(NodeLost, match="3 times"):
        result.get(timeout=WAIT)
    wait_until(lambda: epitaph(app, result.id) == "NodeLost", "the errback was called")


def test_on_lost_fail_is_not_run_again(stack: Stack, app: TangramApp) -> None:
    result = actions.once.delay(20.0)
    wait_until(lambda: bool(app.redis.hlen(app.keys.running)), "it runs")
    stack.kill("api-1")
    with pytest.raises(NodeLost, match="1 times"):
        result.get(timeout=WAIT)


def test_a_verdict_that_no_worker_takes_reaches_the_caller(stack: Stack, app: TangramApp) -> None:
    busy = [actions.nap.delay(4.0) for _ in range(SLOTS)]
    time.sleep(0.3)
    result = actions.add.using(max_queue=0.2, link_error=actions.epitaph.s()).delay(1, 1)
    with pytest.raises(QuotaExhausted):
        result.get(timeout=WAIT)
    for one in busy:
        one.get(timeout=WAIT)


@pytest.mark.parametrize("killed", ["scheduler", "api-1"])
def test_a_revoke_outlives_the_scheduler_and_the_worker(stack: Stack, app: TangramApp, killed: str) -> None:
    busy = [actions.nap.delay(1.5) for _ in range(SLOTS)]
    time.sleep(0.2)
    name = f"revoked-{killed}"
    result = actions.counted.delay(name)
    stack.kill(killed)
    result.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=WAIT)
    for one in busy:
        one.get(timeout=WAIT)
    assert app.redis.hget("executions", name) is None


def test_a_revoke_before_the_message_arrives_is_remembered(stack: Stack, app: TangramApp) -> None:
    app.control.revoke("early-bird")
    wait_until(lambda: app.redis.zscore(app.keys.cancelled, "early-bird") is not None, "it is remembered")
    stack.kill("scheduler")
    result = actions.counted.apply_async(("early",), task_id="early-bird")
    with pytest.raises(TaskRevokedError):
        result.get(timeout=WAIT)
    assert app.redis.hget("executions", "early") is None


def test_an_eta_outlives_the_scheduler(stack: Stack, app: TangramApp) -> None:
    published = time.time()
    result = actions.nap.apply_async((0.0,), countdown=2.0)
    stack.kill("scheduler")
    assert result.get(timeout=WAIT) >= published + 2.0


def test_eager_mode_runs_here(app: TangramApp) -> None:
    app.conf.task_always_eager = True
    try:
        assert actions.add.delay(2, 2).get() == 4
    finally:
        app.conf.task_always_eager = False
