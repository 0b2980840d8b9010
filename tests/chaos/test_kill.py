"""kill -9 in the middle of a run: every action ends exactly once, and everything comes back."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import TangramApp
from tests.support import actions
from tests.support.clients import client_of
from tests.waiting import wait_until

pytestmark = pytest.mark.chaos

ACTIONS = 200
WAIT = 60


@pytest.fixture
def stack() -> Iterator[Stack]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=8)}
    config = StackConfig(
        persistent=True,
        api=(ApiNodeConfig(name="api-1", providers=providers), ApiNodeConfig(name="api-2", providers=providers)),
        imports=("tests.support.actions",),
        settings={"heartbeat": "0.5", "node_timeout": "2", "leader_lease": "1"},
    )
    with Stack(config) as stack:
        yield stack


@pytest.fixture
def app(stack: Stack) -> Iterator[TangramApp]:
    with client_of(stack) as app:
        yield app


def executions(app: TangramApp) -> Counter[str]:
    rows: dict[bytes, bytes] = app.redis.hgetall("executions")  # type: ignore[assignment]  # answers are bytes
    return Counter({name.decode(): int(count) for name, count in rows.items()})


def assert_drained(app: TangramApp) -> None:
    keys = app.keys
    books = (keys.pending, keys.grants, keys.running, keys.raws)
    wait_until(lambda: not any(app.redis.hlen(book) for book in books), "the books are empty")


def test_scheduler_killed_and_restarted(stack: Stack, app: TangramApp, rng: random.Random) -> None:
    results = [actions.counted.delay(f"a{i}", 0.02) for i in range(ACTIONS)]
    for _ in range(3):
        time.sleep(rng.uniform(0.05, 0.4))
        stack.kill("scheduler")
    assert [result.get(timeout=WAIT) for result in results] == [f"a{i}" for i in range(ACTIONS)]
    assert executions(app) == Counter({f"a{i}": 1 for i in range(ACTIONS)}), "each ran exactly once"
    assert_drained(app)


def test_worker_killed_its_actions_run_again_elsewhere(stack: Stack, app: TangramApp, rng: random.Random) -> None:
    results = [actions.counted.delay(f"b{i}", 0.1) for i in range(ACTIONS)]
    time.sleep(rng.uniform(0.3, 0.8))
    stack.kill("api-1")
    assert [result.get(timeout=WAIT) for result in results] == [f"b{i}" for i in range(ACTIONS)]
    counts = executions(app)
    assert set(counts) == {f"b{i}" for i in range(ACTIONS)}
    assert max(counts.values()) <= 2, "at most the killed try and the one after it"
    assert sum(counts.values()) <= ACTIONS + 8, "only what ran on the killed node ran again"
    assert_drained(app)


def test_scheduler_and_worker_killed_together(stack: Stack, app: TangramApp, rng: random.Random) -> None:
    results = [actions.counted.delay(f"c{i}", 0.05) for i in range(ACTIONS)]
    time.sleep(rng.uniform(0.1, 0.5))
    stack.kill("api-2")
    stack.kill("scheduler")
    assert [result.get(timeout=WAIT) for result in results] == [f"c{i}" for i in range(ACTIONS)]
    assert_drained(app)
