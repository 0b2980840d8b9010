"""Everything Celery promises, through the admission hop, on real processes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import TaskRevokedError

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, CpuNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import ActionTimeout, Infeasible, InvalidAction, QuotaExhausted, TangramApp
from tangram_tasks.backend import REPORT
from tangram_tasks.keys import ADMISSION_QUEUE
from tangram_tasks.wire import GRANT_HEADER
from tests.support import actions
from tests.waiting import wait_until

WAIT = 20


@pytest.fixture(scope="module")
def app() -> Iterator[TangramApp]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=4)}
    config = StackConfig(
        persistent=False,
        api=(ApiNodeConfig(name="api-1", providers=providers),),
        cpu=(CpuNodeConfig(name="cpu-1", cores=2, backend="local"),),
        imports=("tests.support.actions",),
        unsafe_local=True,
    )
    with Stack(config) as stack:
        app = TangramApp("client", broker=stack.broker_url)
        app.set_current()
        yield app
        app.close()


def executions(app: TangramApp, name: str) -> int:
    return int(app.redis.hget("executions", name) or 0)


def drained(app: TangramApp) -> bool:
    books = (app.keys.pending, app.keys.grants, app.keys.running, app.keys.raws)
    return not any(app.redis.hlen(book) for book in books)


def test_delay_returns_the_result_with_its_report(app: TangramApp) -> None:
    result = actions.add.delay(2, 3)
    assert result.get(timeout=WAIT) == 5
    report = app.backend.get_task_meta(result.id)[REPORT]
    assert report["node"] == "api-1"
    assert report["key"] == "api:noop"
    assert report["attempts"] == 1
    assert report["queue_s"] >= 0
    assert report["exec_s"] >= 0
    wait_until(lambda: drained(app), "the books are empty")


def test_the_tasks_own_error_reaches_the_caller(app: TangramApp) -> None:
    with pytest.raises(ValueError, match="out of cheese"):
        actions.fail.delay("out of cheese").get(timeout=WAIT)
    wait_until(lambda: drained(app), "the books are empty")


def test_group_chain_chord_link_and_replace(app: TangramApp) -> None:
    assert group(actions.add.s(i, i) for i in range(10)).delay().get(timeout=WAIT) == [2 * i for i in range(10)]
    assert chain(actions.add.s(1, 1), actions.add.s(10), actions.add.s(100)).delay().get(timeout=WAIT) == 112
    assert chord([actions.add.s(i, 1) for i in range(5)], actions.total.s()).delay().get(timeout=WAIT) == 15
    assert actions.replaced.delay(5).get(timeout=WAIT) == 105
    before = executions(app, "linked")
    actions.add.apply_async((1, 1), link=actions.counted.si("linked")).get(timeout=WAIT)
    wait_until(lambda: executions(app, "linked") == before + 1, "the linked action ran")


def test_link_error_is_called(app: TangramApp) -> None:
    before = executions(app, "errback")
    with pytest.raises(ValueError, match="x"):
        actions.fail.apply_async(("x",), link_error=actions.counted.si("errback")).get(timeout=WAIT)
    wait_until(lambda: executions(app, "errback") == before + 1, "the errback ran")


def test_each_retry_gets_a_grant_of_its_own(app: TangramApp) -> None:
    assert actions.flaky.delay("flaky", 2).get(timeout=WAIT) == 2
    assert executions(app, "flaky") == 3
    with pytest.raises(ValueError, match="still flaky"):
        actions.flaky.delay("hopeless", 9).get(timeout=WAIT)
    wait_until(lambda: drained(app), "the books are empty")


def test_send_task_by_name_is_admitted_too(app: TangramApp) -> None:
    stranger = TangramApp("stranger", broker=app.url, set_as_current=False)
    stranger.remote_action("t.add", api="noop")
    assert stranger.send_task("t.add", (4, 4)).get(timeout=WAIT) == 8
    stranger.close()


def test_countdown_is_held_by_admission(app: TangramApp) -> None:
    published = time.time()
    result = actions.nap.apply_async((0.0,), countdown=1.0)
    time.sleep(0.3)
    assert not app.redis.hlen(app.keys.grants)
    assert result.get(timeout=WAIT) >= published + 1.0


def test_expires_while_waiting_is_revoked(app: TangramApp) -> None:
    busy = [actions.nap.delay(1.0) for _ in range(4)]
    result = actions.counted.apply_async(("expired",), expires=0.3)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=WAIT)
    for one in busy:
        one.get(timeout=WAIT)
    assert executions(app, "expired") == 0


def test_max_queue_bounds_waiting_only(app: TangramApp) -> None:
    busy = [actions.nap.delay(1.5) for _ in range(4)]
    time.sleep(0.2)
    with pytest.raises(QuotaExhausted) as refused:
        actions.add.using(max_queue=0.3).delay(1, 1).get(timeout=WAIT)
    assert refused.value.retry_after > 0
    for one in busy:
        one.get(timeout=WAIT)


def test_waiting_does_not_count_as_execution(app: TangramApp) -> None:
    busy = [actions.nap.delay(1.0) for _ in range(4)]
    assert actions.add.using(timeout=0.5).delay(1, 2).get(timeout=WAIT) == 3
    for one in busy:
        one.get(timeout=WAIT)


def test_timeout_is_typed(app: TangramApp) -> None:
    with pytest.raises(ActionTimeout, match=r"t\.overrun"):
        actions.overrun.delay(0.5).get(timeout=WAIT)


def test_revoke_while_waiting(app: TangramApp) -> None:
    busy = [actions.nap.delay(1.0) for _ in range(4)]
    time.sleep(0.2)
    result = actions.counted.delay("revoked")
    result.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=WAIT)
    for one in busy:
        one.get(timeout=WAIT)
    assert executions(app, "revoked") == 0
    wait_until(lambda: drained(app), "the books are empty")


def test_elastic_action_gets_every_free_unit(app: TangramApp) -> None:
    assert actions.on_cpu.delay().get(timeout=WAIT) == 2


def test_infeasible_names_the_largest_node(app: TangramApp) -> None:
    with pytest.raises(Infeasible, match="cpu-1"):
        actions.huge.delay().get(timeout=WAIT)


def test_trajectory_unknown_is_typed(app: TangramApp) -> None:
    from tangram_tasks import SandboxError
    from tangram_tasks.tools import bash

    with pytest.raises(SandboxError, match="nobody"):
        bash.using(trajectory="nobody").delay("true").get(timeout=WAIT)


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message["headers"].update(tangram={"v": 99}),
        lambda message: message["headers"].pop("tangram"),
        lambda message: message.update({"content-type": "application/x-python-serialize"}),
        lambda message: message.update(body="***"),
    ],
    ids=["wrong header", "no header", "pickle", "broken body"],
)
def test_bad_message_fails_for_its_caller(app: TangramApp, change: Any) -> None:
    message, result = _captured(app)
    change(message)
    before = app.redis.llen(app.keys.dead)
    app.redis.lpush(ADMISSION_QUEUE, json.dumps(message))
    with pytest.raises(InvalidAction, match="refused"):
        result.get(timeout=WAIT)
    wait_until(lambda: app.redis.llen(app.keys.dead) == before + 1, "the dead-letter row")


def test_a_message_that_is_no_message_is_kept_for_people(app: TangramApp) -> None:
    before = app.redis.llen(app.keys.dead)
    app.redis.lpush(ADMISSION_QUEUE, b"\xff not json")
    wait_until(lambda: app.redis.llen(app.keys.dead) == before + 1, "the dead-letter row")


def test_a_forged_or_stale_grant_runs_nothing(app: TangramApp) -> None:
    message, _ = _captured(app, actions.counted, "forged")
    message["headers"][GRANT_HEADER] = {"v": 1, "id": "1-1-x", "node": "api-1", "units": 1, "granted_at": 0.0}
    app.redis.lpush("api.api-1", json.dumps(message))
    app.redis.lpush(ADMISSION_QUEUE, json.dumps(message))
    assert actions.add.delay(1, 1).get(timeout=WAIT) == 2
    wait_until(lambda: drained(app), "the books are empty")
    assert executions(app, "forged") == 0


def _captured(app: TangramApp, task: Any = actions.add, *args: Any) -> tuple[dict[str, Any], Any]:
    from tangram_tasks.publisher import EnvelopeProducer

    producer = EnvelopeProducer()
    result = task.apply_async(args or (1, 1), producer=producer)
    return json.loads(producer.envelope), result
