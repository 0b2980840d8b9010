from __future__ import annotations

import json
from typing import Any

import pytest

from tangram_tasks import InvalidAction, Sandbox, TangramApp
from tangram_tasks.declaration import split_options
from tangram_tasks.keys import ADMISSION_QUEUE
from tangram_tasks.publisher import EnvelopeProducer, admission_options, current_trajectory
from tangram_tasks.wire import GRANT_HEADER, HEADER, ActionHeader


@pytest.fixture(scope="module")
def app() -> TangramApp:
    return TangramApp("unit", broker="redis://127.0.0.1:1/0", set_as_current=False)


@pytest.fixture(scope="module")
def suite(app: TangramApp) -> Any:
    @app.action(cpu=(1, 2, 4), timeout=120)
    def run_suite(sandbox: Sandbox, target: str, fast: bool = False) -> str:
        return target

    return run_suite


def options(suite: Any, **given: Any) -> dict[str, Any]:
    return admission_options("t", ActionHeader(spec=suite.spec), {"trajectory": "t1", **given})


def header(made: dict[str, Any]) -> ActionHeader:
    return ActionHeader.model_validate(made["headers"][HEADER])


def test_everything_goes_to_the_admission_queue(suite: Any) -> None:
    made = options(suite, queue="cpu.cheat", routing_key="x", exchange="y", delivery_info={}, priority=9)
    assert made["queue"] == ADMISSION_QUEUE
    assert not {"routing_key", "exchange", "delivery_info", "priority"} & set(made)
    assert header(made).spec.priority == 9, "priority moves into our header: one list, not four"


def test_a_call_may_choose_its_class(suite: Any) -> None:
    assert header(options(suite)).spec.qos == "ls"
    assert header(options(suite, qos="be")).spec.qos == "be"
    with pytest.raises(InvalidAction, match="qos"):
        options(suite, qos="urgent")


def test_a_stale_grant_is_dropped(suite: Any) -> None:
    made = options(suite, headers={GRANT_HEADER: {"id": "old"}, "mine": 1})
    assert GRANT_HEADER not in made["headers"]
    assert made["headers"]["mine"] == 1


def test_a_retry_keeps_trajectory_and_per_call_options(suite: Any) -> None:
    first = options(suite, trajectory="t7", cpu=2, timeout=5)
    again = admission_options("t", ActionHeader(spec=suite.spec), {"headers": dict(first["headers"])})
    assert header(again).trajectory == "t7"
    assert header(again).spec.demand.sizes["cpu"] == (2,)
    assert header(again).spec.timeout == 5


def test_trajectory_comes_from_the_context(suite: Any) -> None:
    token = current_trajectory.set("around")
    try:
        assert header(admission_options("t", ActionHeader(spec=suite.spec), {})).trajectory == "around"
    finally:
        current_trajectory.reset(token)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trajectory": None}, "inside `with app.trajectory"),
        ({"cpu": "many"}, "cpu must be a number of units"),
        ({"cpu": (4, 2)}, "must rise"),
        ({"timeout": -1}, "timeout"),
        ({"max_queue": 0}, "max_queue"),
        ({"task_id": "x" * 1025}, "t: task_id: String should have at most 1024 characters"),
        ({"task_id": "\ud800"}, "t: task_id: .* unicode"),
        ({"serializer": "pickle"}, "t: serializer: Input should be 'json'"),
        ({"compression": "gzip"}, "t: compression: Input should be None"),
    ],
)
def test_wrong_per_call_options_fail_at_the_call(suite: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidAction, match=message):
        options(suite, **given)


def test_wrong_arguments_fail_at_the_call(suite: Any) -> None:
    for args, kwargs in (((), {}), (("a", True, 3), {}), (("a",), {"nope": 1})):
        with pytest.raises(InvalidAction, match="run_suite"):
            suite.using(trajectory="t1").delay(*args, **kwargs)


def test_arguments_json_cannot_carry_fail_at_the_call(suite: Any) -> None:
    with pytest.raises(InvalidAction, match="JSON"):
        suite.using(trajectory="t1", producer=EnvelopeProducer()).delay(object())


def test_sandbox_must_be_the_first_parameter() -> None:
    def late(x: int, sandbox: Sandbox) -> None: ...

    with pytest.raises(InvalidAction, match="first parameter"):
        split_options(late, {"cpu": 1})


def test_bound_actions_take_the_sandbox_second() -> None:
    def bound(self: Any, sandbox: Sandbox) -> None: ...

    assert split_options(bound, {"cpu": 1, "bind": True})[1].sandbox


def test_provider_and_service_come_from_the_arguments() -> None:
    from tangram_tasks.apis import http_get
    from tangram_tasks.rewards import score

    searched, scored = http_get.spec_for(("bing", "/q"), {}), score.spec_for((), {"service": "minilm", "pairs": []})
    assert searched is not None
    assert scored is not None
    assert searched.demand.sizes == {"api:bing": (1,)}
    assert scored.service == "minilm"


def test_a_plain_task_is_published_as_ever(app: TangramApp) -> None:
    @app.task
    def plain() -> None: ...

    producer = EnvelopeProducer()
    plain.apply_async(producer=producer)
    message = json.loads(producer.envelope)
    assert message["properties"]["delivery_info"]["routing_key"] == "tangram.plain"
    assert HEADER not in message["headers"]


def test_eager_mode_runs_without_a_grant() -> None:
    eager = TangramApp("eager", broker="memory://", set_as_current=False, task_always_eager=True)
    eager.conf.task_always_eager = True

    @eager.action(cpu=1)
    def double(x: int) -> int:
        return 2 * x

    @eager.action(cpu=1)
    def in_sandbox(sandbox: Sandbox) -> None: ...

    assert double.delay(21).get() == 42
    with pytest.raises(Exception, match="needs a sandbox"):
        in_sandbox.delay().get()


def test_a_direct_call_takes_the_sandbox_from_the_caller(suite: Any) -> None:
    assert suite(None, "target") == "target"


async def test_eager_actions_can_be_awaited() -> None:
    eager = TangramApp("eager-async", broker="redis://127.0.0.1:1/0", set_as_current=False)
    eager.conf.task_always_eager = True

    @eager.action(cpu=1)
    def triple(x: int) -> int:
        if x < 0:
            raise ValueError("negative")
        return 3 * x

    assert await triple.adelay(14) == 42
    with pytest.raises(ValueError, match="negative"):
        await triple.adelay(-1)
