"""Bad input and bad moments: each ends with a typed outcome, and the next action works."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, CpuNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import InvalidAction, TangramApp
from tangram_tasks.control import stream_entry
from tangram_tasks.control_messages import CloseTrajectory, OpenTrajectory
from tangram_tasks.keys import ADMISSION_QUEUE
from tangram_tasks.publisher import EnvelopeProducer
from tangram_tasks.trajectory import Trajectory
from tangram_tasks.wire import NodeRecord
from tests.support import actions
from tests.waiting import wait_until

WAIT = 20


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=4)}
    config = StackConfig(
        persistent=False,
        api=(ApiNodeConfig(name="api-1", providers=providers),),
        cpu=(CpuNodeConfig(name="cpu-1", cores=1, memory_mib=100, backend="local"),),
        imports=("tests.support.actions",),
        unsafe_local=True,
        settings={"start_lease": "1", "heartbeat": "0.3", "node_timeout": "2", "leader_lease": "1"},
    )
    with Stack(config) as stack:
        yield stack


def epoch(app: TangramApp) -> int:
    return int(app.redis.get(app.keys.epoch) or 0)


def order(name: str, memory: int = 80) -> OpenTrajectory:
    return OpenTrajectory(trajectory=name, image="any", memory=memory, expires_at=time.time() + 60)


@pytest.fixture(autouse=True)
def _still_leading(app: TangramApp, request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test does, the scheduler works after it; and it is the same one, unless the test killed it."""
    before = epoch(app)
    yield
    assert actions.add.delay(1, 1).get(timeout=WAIT) == 2
    killed = "dead_nodes_record" in request.node.name
    assert epoch(app) == before + killed, "the scheduler had to start over"


def test_trajectories_that_close_as_they_open(app: TangramApp) -> None:
    names = [f"flash-{i}" for i in range(6)]
    entries: list[OpenTrajectory | CloseTrajectory] = [
        *(order(name) for name in names),
        *(CloseTrajectory(trajectory=name) for name in names),
    ]
    pipeline = app.redis.pipeline(transaction=True)
    for entry in entries:
        pipeline.xadd(app.keys.control, stream_entry(entry))
    pipeline.execute()
    wait_until(lambda: not app.redis.xlen(app.keys.control), "the control stream is worked off")
    wait_until(lambda: not app.redis.hlen(app.keys.trajectories), "no trajectory is left")


def test_hundreds_of_trajectories_before_their_first_actions(app: TangramApp) -> None:
    pipeline = app.redis.pipeline(transaction=False)
    for i in range(600):
        pipeline.xadd(app.keys.control, stream_entry(CloseTrajectory(trajectory=f"unknown-{i}")))
    pipeline.execute()
    assert actions.add.delay(2, 2).get(timeout=WAIT) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message["headers"].update(id=7),
        lambda message: message["headers"].update(id=["a"]),
        lambda message: message.update(properties=[]),
        lambda message: message.update(body=json.dumps([[], {}, None]), properties={}),
        lambda message: message.update(body="[" * 100_000, properties={}),
        lambda message: message["headers"].update(retries="many"),
        lambda message: message["headers"].update(eta="tomorrow"),
        lambda message: message["headers"]["tangram"]["spec"].update(duration=float("inf")),
        lambda message: message["headers"]["tangram"]["spec"].update(max_queue=float("inf")),
    ],
    ids=["id 7", "id list", "properties list", "no embed", "deep body", "retries", "eta", "duration inf", "queue inf"],
)
def test_poison_is_buried(app: TangramApp, change: Callable[[dict[str, Any]], Any]) -> None:
    producer = EnvelopeProducer()
    actions.add.apply_async((1, 1), producer=producer)
    message = json.loads(producer.envelope)
    change(message)
    before = app.redis.llen(app.keys.dead)
    app.redis.lpush(ADMISSION_QUEUE, json.dumps(message))
    wait_until(lambda: app.redis.llen(app.keys.dead) == before + 1, "it is among the dead")


@pytest.mark.parametrize("stream", ["control", "events", "done"])
def test_rubbish_in_a_stream_is_skipped(app: TangramApp, stream: str) -> None:
    app.redis.xadd(getattr(app.keys, stream), {"m": '{"op": "nonsense"}'})
    wait_until(lambda: not app.redis.xlen(getattr(app.keys, stream)), "it is worked off")


def test_infinite_limits_fail_at_the_call() -> None:
    for options in ({"max_queue": float("inf")}, {"duration": float("inf")}, {"timeout": float("nan")}):
        with pytest.raises(InvalidAction):
            actions.add.using(**options).delay(1, 1)


def test_an_action_no_worker_can_load_fails(app: TangramApp) -> None:
    app.remote_action("t.nobody_has_this", api="noop")
    result = app.send_task("t.nobody_has_this")
    with pytest.raises(Exception, match=r"NotRegistered|TANGRAM_IMPORTS|t\.nobody_has_this"):
        result.get(timeout=WAIT)
    wait_until(lambda: not app.redis.hlen(app.keys.grants), "its units come back", 30)


def test_max_queue_does_not_count_a_countdown(app: TangramApp) -> None:
    assert actions.add.using(max_queue=0.5, countdown=1.0).delay(1, 2).get(timeout=WAIT) == 3


def test_a_duplicate_of_a_running_message_runs_once(app: TangramApp) -> None:
    producer = EnvelopeProducer()
    result = actions.counted.apply_async(("once", 0.5), producer=producer)
    app.redis.lpush(ADMISSION_QUEUE, producer.envelope)
    wait_until(lambda: bool(app.redis.hlen(app.keys.running)), "it runs")
    app.redis.lpush(ADMISSION_QUEUE, producer.envelope)
    assert result.get(timeout=WAIT) == "once"
    assert actions.nap.delay(0.1).get(timeout=WAIT) > 0
    assert app.redis.hget("executions", "once") == b"1"


async def test_many_trajectories_open_and_close_at_once(app: TangramApp) -> None:
    async def flash() -> None:
        async with Trajectory(app, memory="64MiB"):
            await asyncio.sleep(0)

    await asyncio.gather(*(flash() for _ in range(80)))


async def test_results_survive_a_cut_subscription(app: TangramApp) -> None:
    handles = [await actions.nap.asubmit(1.0) for _ in range(3)]
    for _ in range(5):
        app.redis.client_kill_filter(_type="pubsub")
        handles.append(await actions.add.asubmit(1, 1))
        await asyncio.sleep(0.1)
    async with asyncio.timeout(WAIT):
        results = await asyncio.gather(*handles)
    assert results[3:] == [2] * 5


async def test_cancelling_before_it_is_sent_sends_nothing(app: TangramApp) -> None:
    task = asyncio.create_task(actions.counted.asubmit("never"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await actions.nap.adelay(0.2)
    assert app.redis.hget("executions", "never") is None


async def test_a_dead_nodes_record_does_not_cost_the_lead(stack: Stack, app: TangramApp) -> None:
    ghost = NodeRecord(node="ghost", kind="api", generation="g", capacity={}, beat=1.0)
    app.redis.hset(app.keys.nodes, "ghost", ghost.model_dump_json())
    stack.kill("scheduler")
    assert await actions.add.adelay(3, 4) == 7
    assert app.redis.hget(app.keys.nodes, "ghost") is None
