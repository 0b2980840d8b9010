"""A broker whose memory is full refuses what is new; what was taken in ends, and everything goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import BrokerUnavailable, TangramApp
from tests.support import actions
from tests.support.brokers import ForgetfulBroker
from tests.waiting import wait_until

WAIT = 30


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=2)}
    with ForgetfulBroker(tmp_path) as broker:
        config = StackConfig(
            broker_url=broker.url,
            api=(ApiNodeConfig(name="api-1", providers=providers),),
            imports=("tests.support.actions",),
            settings={"heartbeat": "0.3", "node_timeout": "2", "leader_lease": "1"},
        )
        with Stack(config) as stack:
            yield stack


async def test_what_was_taken_in_ends_and_what_is_new_is_refused(stack: Stack) -> None:
    app = TangramApp("client", broker=stack.broker_url)
    app.set_current()
    taken = [actions.nap.delay(1.0) for _ in range(8)]
    wait_until(lambda: app.redis.hlen(app.keys.pending) == 6, "two run, six wait")
    epoch = app.redis.get(app.keys.epoch)
    with redis.Redis.from_url(stack.broker_url) as operator:
        operator.config_set("maxmemory", "1mb")
        with pytest.raises(BrokerUnavailable, match=r"is full and takes nothing new") as refused:
            actions.add.delay(1, 1)
        assert "default:***@" in str(refused.value)
        with pytest.raises(BrokerUnavailable, match="is full"):
            await actions.add.adelay(1, 1)
        for result in taken:
            assert result.get(timeout=WAIT) > 0
        assert app.redis.get(app.keys.epoch) == epoch, "the lead was kept"
        assert {name: child.restarts for name, child in stack.children.items()} == {"scheduler": 0, "api-1": 0}
        operator.config_set("maxmemory", "0")
    assert actions.add.delay(1, 1).get(timeout=WAIT) == 2
    assert await actions.add.adelay(2, 2) == 4
    app.close()
