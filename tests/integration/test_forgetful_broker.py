"""A broker is killed and comes back without its last second: nothing runs twice, nothing is lost."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import TangramApp
from tests.support import actions
from tests.support.brokers import ForgetfulBroker
from tests.waiting import wait_until

ACTIONS = 60
WAIT = 40


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ForgetfulBroker]:
    with ForgetfulBroker(tmp_path) as broker:
        yield broker


@pytest.fixture
def app(broker: ForgetfulBroker) -> Iterator[TangramApp]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=6)}
    config = StackConfig(
        broker_url=broker.url,
        api=(ApiNodeConfig(name="api-1", providers=providers), ApiNodeConfig(name="api-2", providers=providers)),
        imports=("tests.support.actions",),
        settings={"heartbeat": "0.3", "leader_lease": "1", "start_lease": "3"},
    )
    with Stack(config):
        app = TangramApp("client", broker=broker.url)
        app.set_current()
        yield app
        app.close()


@pytest.mark.parametrize("forgotten", [0.15, 0.5, 0.9])
def test_what_ended_or_runs_is_not_run_again(
    broker: ForgetfulBroker, app: TangramApp, rng: random.Random, tmp_path: Path, forgotten: float
) -> None:
    log = tmp_path / "log"
    results = {f"a{i}": actions.logged.delay(str(log), f"a{i}", rng.uniform(0.0, 0.5)) for i in range(ACTIONS)}
    wait_until(lambda: log.exists() and len(log.read_text().splitlines()) >= 5, "some have ended")
    broker.remember()
    time.sleep(forgotten)
    broker.restart_as_remembered()
    for name, result in results.items():
        assert app.AsyncResult(result.id).get(timeout=WAIT) == name
    books = (app.keys.pending, app.keys.grants, app.keys.running, app.keys.raws)
    wait_until(lambda: not any(app.redis.hlen(book) for book in books), "the books are empty")
    ran = Counter(log.read_text().split())
    assert ran == Counter(dict.fromkeys(results, 1)), "each ran exactly once"
