"""RL jobs on real workers: shares, pause, resume, cancel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import fmean
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError

from benchmarks.counting_server import CountingServer
from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, CpuNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import ActionCancelled, TangramApp
from tangram_tasks.backend import REPORT
from tests.integration.test_apis import tangram, tangram_json
from tests.waiting import wait_until

WAIT = 60


@pytest.fixture(scope="module")
def running() -> Iterator[Stack]:
    with CountingServer() as server:
        provider = ProviderConfig(base_url=server.url, concurrency=2)
        config = StackConfig(
            persistent=False,
            api=(ApiNodeConfig(name="api-1", providers={"search": provider}),),
            cpu=(CpuNodeConfig(name="cpu-1", cores=2, backend="local"),),
            imports=("tests.support.api_calls",),
            unsafe_local=True,
        )
        with Stack(config) as stack:
            yield stack


@pytest.fixture(autouse=True)
def _broker(running: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANGRAM_BROKER_URL", running.broker_url)


def job(running: Stack, name: str, weight: int = 1) -> TangramApp:
    app = TangramApp("client", broker=running.broker_url, job=name, weight=weight, set_as_current=False)
    app.remote_action("tangram_tasks.apis.http_get", api="search", timeout=60)
    app.remote_action("a.spin", cpu=1, timeout=60)
    return app


def get(app: TangramApp, ms: int) -> Any:
    return app.send_task("tangram_tasks.apis.http_get", ("search", f"/ok?ms={ms}"))


def spin(app: TangramApp, seconds: float) -> Any:
    return app.send_task("a.spin", (seconds,))


def acts(app: TangramApp, publish: Any, count: int) -> list[float]:
    """Run actions one after the other, as one trajectory does. Returns their ACTs by their own reports."""
    rows = []
    for _ in range(count):
        result = publish(app)
        result.get(timeout=WAIT)
        report = app.backend.get_task_meta(result.id)[REPORT]
        rows.append(report["queue_s"] + report["overhead_s"] + report["exec_s"])
    return rows


@pytest.mark.parametrize("kind", ["api", "cpu"])
def test_a_light_job_is_hardly_slowed_down_by_a_heavy_one(running: Stack, kind: str) -> None:
    light, heavy = job(running, f"light-{kind}"), job(running, f"heavy-{kind}")

    def small(app: TangramApp) -> Any:
        return get(app, 400) if kind == "api" else spin(app, 0.4)

    def large(app: TangramApp) -> Any:
        return get(app, 150) if kind == "api" else spin(app, 0.15)

    alone = fmean(acts(light, small, 6))
    load = [large(heavy) for _ in range(120)]
    wait_until(lambda: heavy.redis.hlen(heavy.keys.grants) == 2, "the heavy job holds everything")
    beside = fmean(acts(light, small, 6))
    waits = int(heavy.redis.hlen(heavy.keys.pending))
    [row.get(timeout=WAIT) for row in load]
    assert waits > 0, "the heavy job was there all the time"
    assert beside / alone <= 1.5
    for app in (light, heavy):
        app.close()


def test_pause_holds_what_waits_and_resume_lets_it_go_on(running: Stack) -> None:
    app, other = job(running, "paused"), job(running, "other")
    first = [get(app, 300) for _ in range(2)]
    wait_until(lambda: app.redis.hlen(app.keys.running) == 2, "two run")
    later = [get(app, 10) for _ in range(3)]
    wait_until(lambda: app.redis.hlen(app.keys.pending) == 3, "three wait")
    tangram("jobs", "pause", "paused")
    [row.get(timeout=WAIT) for row in first]
    late = get(app, 10)
    get(other, 10).get(timeout=WAIT)
    time.sleep(0.5)
    assert not any(row.ready() for row in [*later, late])
    (row,) = [row for row in tangram_json("jobs", "ls") if row["name"] == "paused"]
    assert (row["record"]["state"], row["waiting"], row["granted"]) == ("paused", 4, 0)
    running.kill("scheduler")
    get(other, 10).get(timeout=WAIT)
    assert not any(row.ready() for row in [*later, late]), "the next leader pauses it, too"
    tangram("jobs", "resume", "paused")
    assert [row.get(timeout=WAIT)["status"] for row in [*later, late]] == [200] * 4
    for one in (app, other):
        one.close()


def test_cancel_ends_everything_of_a_job_and_nothing_else(running: Stack) -> None:
    app, other = job(running, "cancelled"), job(running, "spared")
    mine, spared = [get(app, 1500) for _ in range(6)], [get(other, 10) for _ in range(2)]
    wait_until(lambda: app.redis.hlen(app.keys.running) == 2, "some run")
    tangram("jobs", "cancel", "cancelled")
    for row in mine:
        with pytest.raises((TaskRevokedError, ActionCancelled), match=r"cancelled|revoked"):
            row.get(timeout=WAIT)
    assert [row.get(timeout=WAIT)["status"] for row in spared] == [200] * 2
    with pytest.raises(TaskRevokedError):
        get(app, 10).get(timeout=WAIT)
    tangram("jobs", "resume", "cancelled")
    assert get(app, 10).get(timeout=WAIT)["status"] == 200
    for one in (app, other):
        one.close()


def test_a_weight_by_hand_counts_more_than_the_jobs_own(running: Stack) -> None:
    app = job(running, "weighed", weight=2)
    get(app, 1).get(timeout=WAIT)
    assert weight_of("weighed") == 2
    tangram("jobs", "set", "weighed", "--weight", "5")
    get(app, 1).get(timeout=WAIT)
    assert weight_of("weighed") == 5
    app.close()


def weight_of(name: str) -> int:
    (row,) = [row for row in tangram_json("jobs", "ls") if row["name"] == name]
    return int(row["record"]["weight"])
