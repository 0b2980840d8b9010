"""The async client: awaiting, cancelling, a thousand at once, on real processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import ActionCancelled, BrokerUnavailable, TangramApp
from tests.support import actions


@pytest.fixture(scope="module")
def app() -> Iterator[TangramApp]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=8)}
    node = ApiNodeConfig(name="api-1", providers=providers)
    with Stack(StackConfig(persistent=False, api=(node,), imports=("tests.support.actions",))) as stack:
        app = TangramApp("client", broker=stack.broker_url)
        app.set_current()
        yield app
        app.close()


async def test_adelay_returns_and_raises(app: TangramApp) -> None:
    assert await actions.add.adelay(1, 2) == 3
    with pytest.raises(ValueError, match="no"):
        await actions.fail.adelay("no")


async def test_handle_has_id_result_and_report(app: TangramApp) -> None:
    handle = await actions.add.asubmit(20, 22)
    assert handle.report is None or handle.done
    assert await handle == 42
    assert await handle == 42, "a handle may be awaited twice"
    assert handle.report is not None
    assert handle.report.task == "t.add"
    assert handle.report.act_s >= handle.report.queue_s


async def test_many_at_once_share_one_subscription(app: TangramApp) -> None:
    results = await asyncio.gather(*(actions.add.adelay(i, i) for i in range(300)))
    assert results == [2 * i for i in range(300)]
    clients = [client for client in app.redis.client_list() if client.get("sub") not in (None, "0")]
    assert len(clients) <= 4, "one pubsub connection for all waiters, beside the workers' own"


async def test_cancel_while_waiting(app: TangramApp) -> None:
    busy = [await actions.nap.asubmit(1.0) for _ in range(8)]
    handle = await actions.counted.asubmit("cancelled")
    await asyncio.sleep(0.1)
    await handle.cancel()
    with pytest.raises(ActionCancelled):
        await handle
    await asyncio.gather(*busy)
    assert app.redis.hget("executions", "cancelled") is None


async def test_cancelling_the_await_cancels_the_action(app: TangramApp) -> None:
    busy = [await actions.nap.asubmit(1.0) for _ in range(8)]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await actions.counted.adelay("abandoned")
    await asyncio.gather(*busy)
    await asyncio.sleep(0.3)
    assert app.redis.hget("executions", "abandoned") is None


async def test_unreachable_broker_is_a_clear_error() -> None:
    lost = TangramApp("lost", broker="redis://:secret@127.0.0.1:1/0", set_as_current=False)
    lost.remote_action("t.add", api="noop")
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable) as failure:
        async with lost.trajectory():
            pass
    assert time.monotonic() - started < 5
    assert "127.0.0.1:1" in str(failure.value)
    assert "secret" not in str(failure.value)
