"""Policy "live" and light actions over real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compose.embedded import Stack
from compose.stack_config import CpuNodeConfig, StackConfig
from tangram_tasks import TangramApp
from tangram_tasks.backend import REPORT
from tangram_tasks.tools import bash
from tests.support import actions
from tests.waiting import wait_until

WAIT = 30


@pytest.fixture(scope="module")
def app() -> Iterator[TangramApp]:
    config = StackConfig(
        persistent=False,
        cpu=(CpuNodeConfig(name="cpu-1", cores=2, backend="local"),),
        imports=("tests.support.actions",),
        settings={"policy": "live"},
        unsafe_local=True,
    )
    with Stack(config) as stack:
        app = TangramApp("client", broker=stack.broker_url)
        app.set_current()
        yield app
        app.close()


def started(app: TangramApp, action: str) -> None:
    wait_until(lambda: app.redis.get("running") == action.encode(), "it runs")


def test_a_running_action_shrinks_for_one_that_waits_and_grows_again(app: TangramApp) -> None:
    with app.trajectory(memory="64MiB"):
        result = actions.sizes.delay(2)
        started(app, result.id)
        assert bash.delay("true").get(timeout=WAIT)["exit_code"] == 0
        assert result.get(timeout=WAIT) == [2, 1, 2]
    assert [units for _, units in app.backend.get_task_meta(result.id)[REPORT]["units_over_time"]] == [2, 1, 2]


def test_a_light_action_runs_beside_a_full_node(app: TangramApp) -> None:
    with app.trajectory(memory="64MiB"):
        result = actions.rigid.delay()
        started(app, result.id)
        light = actions.peek.delay()
        assert light.get(timeout=WAIT) == [0, 1, "seen"], "no units, and time for one worker"
        assert result.get(timeout=WAIT) == [2]
    ends = [app.backend.get_task_meta(one.id)[REPORT]["ended_at"] for one in (light, result)]
    assert ends == sorted(ends), "it did not wait for the units"
