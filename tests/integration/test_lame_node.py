"""A node that beats and starts nothing is put into quarantine, and what it was given runs elsewhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from monitoring.status import read_status
from tangram_tasks import TangramApp
from tangram_tasks.sharing import QuotaRecord
from tangram_tasks.wire import NodeRecord
from tests.support import actions
from tests.waiting import wait_until

WAIT = 40


@pytest.fixture
def app() -> Iterator[TangramApp]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=2)}
    config = StackConfig(
        persistent=False,
        api=(ApiNodeConfig(name="able", providers=providers),),
        imports=("tests.support.actions",),
        settings={"heartbeat": "0.3", "start_lease": "1.5"},
    )
    with Stack(config) as stack:
        app = TangramApp("client", broker=stack.broker_url)
        app.set_current()
        yield app
        app.close()


def beat(app: TangramApp, stop: threading.Event) -> None:
    while not stop.is_set():
        seconds, microseconds = app.redis.time()
        record = NodeRecord(
            node="lame", kind="api", generation="g", capacity={}, quotas={"noop": QuotaRecord(concurrency=8)},
            beat=seconds + microseconds / 1e6,
        )  # fmt: skip
        app.redis.hset(app.keys.nodes, "lame", record.model_dump_json())
        stop.wait(0.3)


def test_it_gets_nothing_new_and_is_shown(app: TangramApp) -> None:
    stop = threading.Event()
    lame = threading.Thread(target=beat, args=(app, stop))
    lame.start()
    try:
        wait_until(lambda: app.redis.hexists(app.keys.nodes, "lame"), "the lame node is announced")
        results = [actions.counted.delay(f"q{i}", 0.05) for i in range(40)]
        wait_until(lambda: app.redis.hexists(app.keys.quarantine, "lame"), "the lame node is in quarantine", WAIT)
        assert [result.get(timeout=WAIT) for result in results] == [f"q{i}" for i in range(40)]
        status = read_status(app.redis, app.keys, node_timeout=5.0)
        shown = {node.record.node: (node.quarantines, node.quarantined_s > 0) for node in status.nodes}
        assert shown["able"] == (0, False)
        assert shown["lame"][0] >= 1
        until = json.loads(app.redis.hget(app.keys.quarantine, "lame") or b"{}")["until"]
        assert until > 0
    finally:
        stop.set()
        lame.join()
    executed = app.redis.hgetall("executions")
    assert set(executed.values()) == {b"1"}, "each ran once"
