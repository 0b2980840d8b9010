"""Learned durations and explanations over real processes, and over the death of the scheduler that learned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import TangramApp
from tangram_tasks.errors import ServiceUnavailable
from tangram_tasks.questions import ActionExplained, explain
from tests.support import actions
from tests.waiting import wait_until

WAIT = 30


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    provider = ProviderConfig(base_url="http://127.0.0.1:9", concurrency=1)
    config = StackConfig(
        persistent=False,
        api=(ApiNodeConfig(name="api-1", providers={"noop": provider}),),
        imports=("tests.support.actions",),
        settings={"leader_lease": "1"},
    )
    with Stack(config) as stack:
        yield stack


def why(app: TangramApp, action: str) -> ActionExplained:
    return explain(app.redis, app.keys, action, timeout=10)


def test_a_waiting_action_is_explained(stack: Stack, app: TangramApp) -> None:
    first, second, third = (actions.nap.delay(1.5) for _ in range(3))
    wait_until(lambda: app.redis.hlen(app.keys.running) == 1, "the first runs")
    waits = why(app, third.id)
    assert (waits.state, waits.place, waits.position, waits.demand) == ("waiting", "api:noop", 2, {"api:noop": 1})
    assert waits.free == {"api:noop": {"api:noop": 0}}
    assert waits.reason.startswith("api:noop lacks api:noop=1")
    assert waits.start_s is not None
    assert why(app, first.id).state == "granted"
    assert why(app, "nobody").state == "unknown"
    environment = {**os.environ, "TANGRAM_BROKER_URL": stack.broker_url}
    command = [sys.executable, "-m", "compose.cli", "queue", "explain", third.id]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    rows = [line.split() for line in printed.splitlines()]
    assert ["state", "waiting"] in rows
    assert ["free", "on", "api:noop", "api:noop=0"] in rows
    assert [result.get(timeout=WAIT) > 0 for result in (first, second, third)] == [True] * 3


def test_a_wrong_hint_heals_and_the_next_leader_knows(stack: Stack, app: TangramApp) -> None:
    quick = actions.nap.using(bucket="quick", duration=600.0)
    wrong = quick.delay(2.0)
    asked = quick.delay(0.1)
    wait_until(lambda: why(app, asked.id).state == "waiting", "it waits")
    assert (why(app, asked.id).act_s or 0) > 100, "as declared"
    results = [quick.delay(0.1) for _ in range(30)]
    for result in (wrong, asked, *results):
        result.get(timeout=WAIT)
    field = json.dumps(["t.nap", "quick"])
    wait_until(lambda: b"32" in (app.redis.hget(app.keys.estimates, field) or b""), "all are learned")
    stack.kill("scheduler")
    blocker, again = quick.delay(3.0), quick.delay(0.1)
    wait_until(lambda: why(app, blocker.id).state == "granted", "the next leader is at work")
    inherited = why(app, again.id)
    assert inherited.confidence > 0.9
    assert inherited.act_s is not None
    assert inherited.act_s < 100
    for result in (blocker, again):
        result.get(timeout=WAIT)


def test_nobody_answers_is_said(clean_redis_url: str) -> None:
    app = TangramApp("client", broker=clean_redis_url)
    with pytest.raises(ServiceUnavailable, match=r"no scheduler answers within 0\.2 s"):
        explain(app.redis, app.keys, "a1", timeout=0.2)
    app.close()
