"""API quotas on real workers, against a server that counts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.counting_server import CountingServer
from compose.cli import cli
from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from monitoring.shares import read_providers
from tangram_tasks import ActionTimeout, InvalidAction, QuotaExhausted, ServiceUnavailable, TangramApp
from tangram_tasks.apis import http_get, judge
from tangram_tasks.sharing import WindowRecord
from tests.support import api_calls
from tests.waiting import wait_until

WAIT = 40
SECRET = "sk-test-3f81c2d07b"


def stack(server: CountingServer, *nodes: str, **fields: Any) -> StackConfig:
    provider = ProviderConfig(base_url=server.url, **fields)
    return StackConfig(
        persistent=False,
        api=tuple(ApiNodeConfig(name=name, providers={"search": provider}) for name in nodes or ("api-1",)),
        imports=("tests.support.api_calls",),
    )


@pytest.fixture
def server() -> Iterator[CountingServer]:
    with CountingServer() as running:
        yield running


@pytest.fixture(scope="module")
def many() -> Iterator[tuple[CountingServer, TangramApp, Stack]]:
    """One deployment for the tests that do not need limits of their own."""
    with CountingServer() as server, Stack(stack(server, concurrency=50, timeout=1.0, retries=0)) as running:
        app = TangramApp("client", broker=running.broker_url)
        app.set_current()
        yield server, app, running
        app.close()


def client(running: Stack) -> TangramApp:
    app = TangramApp("client", broker=running.broker_url)
    app.set_current()
    return app


def closed(app: TangramApp) -> bool:
    return any(row.closed_s > 0 for row in read_providers(app.redis, app.keys))


def publish(running: Stack, processes: int, calls: int, path: str) -> float:
    """Publish from so many processes at once and wait for all results. Returns the seconds that took."""
    command = [sys.executable, "-m", "tests.support.api_calls", running.broker_url, str(calls), path]
    started = time.monotonic()
    children = [subprocess.Popen(command) for _ in range(processes)]
    codes = [child.wait(110) for child in children]
    assert codes == [0] * processes
    return time.monotonic() - started


@pytest.mark.timeout(180)
def test_eight_processes_together_stay_within_one_quota_and_use_it() -> None:
    limit, window, calls = 300, 6.0, 8 * 200
    windows = (WindowRecord(limit=limit, seconds=window),)
    with CountingServer(concurrency=10, limit=limit, window=window) as server:
        with Stack(stack(server, "api-1", "api-2", concurrency=10, windows=windows)) as running:
            publish(running, 8, calls // 8, "/ok?ms=20")
        books = server.books
    assert books.refused == 0
    assert len(books.arrivals) == calls
    assert books.most_in_flight <= 10
    assert books.most_within(window) <= limit
    whole = (calls - 1) // limit  # so many times the window must pass before the last call may start
    last_of_whole = books.arrivals[whole * limit] - books.arrivals[0]
    assert whole * window / last_of_whole >= 0.97


def test_a_429_closes_the_provider_for_everybody(server: CountingServer) -> None:
    with Stack(stack(server, "api-1", "api-2", concurrency=4)) as running:
        app = client(running)
        http_get.delay("search", "/ok").get(timeout=WAIT)
        server.refuse_next("2")
        refused = http_get.delay("search", "/ok")
        wait_until(lambda: closed(app), "the scheduler knows that the provider refused a call")
        since = server.books.arrivals[-1]
        others = [http_get.delay("search", "/ok") for _ in range(12)]
        assert [row.get(timeout=WAIT)["status"] for row in [refused, *others]] == [200] * 13
        app.close()
    assert server.books.within(since, since + 2.0) == 0
    assert len(server.books.arrivals) == 15


def test_limits_change_within_a_second(server: CountingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = (WindowRecord(limit=2, seconds=60.0),)
    with Stack(stack(server, concurrency=4, windows=windows)) as running:
        app = client(running)
        results = [http_get.delay("search", "/ok") for _ in range(30)]
        wait_until(lambda: len(server.books.arrivals) == 2, "the limit is used up")
        monkeypatch.setenv("TANGRAM_BROKER_URL", running.broker_url)
        changed = time.monotonic()
        tangram("apis", "set", "search", "--per-minute", "1000", "--concurrency", "2")
        [row.get(timeout=WAIT) for row in results]
        assert server.books.arrivals[2] - changed < 1.0
        assert server.books.most_in_flight <= 4
        (row,) = tangram_json("apis", "ls")
        assert (row["by_hand"], row["in_flight"], row["quota"]["concurrency"]) == (True, 0, 2)
        running.kill("scheduler")
        assert http_get.delay("search", "/ok").get(timeout=WAIT)["status"] == 200, "the next leader knows it, too"
        tangram("apis", "reset", "search")
        wait_until(lambda: not tangram_json("apis", "ls")[0]["by_hand"], "the declared limits count again")
        app.close()


def test_the_next_leader_knows_what_was_spent(server: CountingServer) -> None:
    windows = (WindowRecord(limit=5, seconds=8.0),)
    with Stack(stack(server, concurrency=4, windows=windows)) as running:
        app = client(running)
        [row.get(timeout=WAIT) for row in [http_get.delay("search", "/ok") for _ in range(5)]]
        running.kill("scheduler")
        [row.get(timeout=WAIT) for row in [http_get.delay("search", "/ok") for _ in range(3)]]
        app.close()
    assert server.books.most_within(8.0) <= 5


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/hang", ServiceUnavailable),
        ("/drip", ServiceUnavailable),
        ("/truncate", ServiceUnavailable),
        ("/status/500", ServiceUnavailable),
    ],
)
def test_what_goes_wrong_is_typed(many: Any, path: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="search"):
        http_get.delay("search", path).get(timeout=WAIT)


def test_the_actions_own_timeout_is_typed(many: Any) -> None:
    with pytest.raises(ActionTimeout):
        http_get.using(timeout=0.3).delay("search", "/hang").get(timeout=WAIT)


def test_too_many_requests_for_one_grant_are_refused(many: Any) -> None:
    server = many[0]
    before = len(server.books.arrivals)
    with pytest.raises(InvalidAction, match="calls=N"):
        api_calls.twice.delay().get(timeout=WAIT)
    assert len(server.books.arrivals) == before + 2


def test_a_cancelled_call_ends(many: Any) -> None:
    _, app, _ = many
    result = http_get.delay("search", "/ok?ms=900")
    wait_until(lambda: app.redis.hlen(app.keys.running) == 1, "it runs")
    result.revoke()
    wait_until(lambda: not app.redis.hlen(app.keys.grants), "its grant has ended")


def test_a_failing_provider_is_tried_again(server: CountingServer) -> None:
    with Stack(stack(server, concurrency=4, retries=2)) as running:
        app = client(running)
        with pytest.raises(ServiceUnavailable, match="500"):
            http_get.delay("search", "/status/500").get(timeout=WAIT)
        assert len(server.books.arrivals) == 3
        server.refuse_next("30")
        with pytest.raises(QuotaExhausted):
            http_get.using(timeout=5).delay("search", "/ok").get(timeout=WAIT)
        app.close()


def test_tokens_keys_cache_and_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TEST_KEY_1", SECRET + "-1")
    monkeypatch.setenv("TEST_KEY_2", SECRET + "-2")
    with CountingServer() as server:
        base = f"{server.url}/chat/400"
        provider = ProviderConfig(
            base_url=base,
            concurrency=1,
            tokens_per_minute=1000,
            key_env=("TEST_KEY_1", "TEST_KEY_2"),
            cache_ttl=60.0,
        )
        config = StackConfig(
            persistent=False,
            state_dir=tmp_path / "state",
            api=(ApiNodeConfig(name="api-1", providers={"judge": provider}),),
        )
        with Stack(config) as running:
            app = client(running)
            grades = [judge.delay("judge", f"question {n}", "answer", "m") for n in range(3)]
            assert [row.get(timeout=WAIT)["score"] for row in grades] == [0.75] * 3
            used = {headers["authorization"] for headers in server.books.headers}
            assert used == {f"Bearer {SECRET}-1", f"Bearer {SECRET}-2"}
            assert judge.delay("judge", "question 1", "answer", "m").get(timeout=WAIT)["score"] == 0.75
            assert len(server.books.arrivals) == 3, "the same question was not sent twice"
            judge.delay("judge", "question 3", "answer", "m").get(timeout=WAIT)
            with pytest.raises(QuotaExhausted):  # both keys have used 800 of 1000 tokens
                judge.using(max_queue=0.5).delay("judge", "x" * 1000, "answer", "m").get(timeout=WAIT)
            everything = b"".join(_dump(app))
            app.close()
        logs = b"".join(path.read_bytes() for path in (tmp_path / "state" / "logs").iterdir())
    assert SECRET.encode() not in everything
    assert SECRET.encode() not in logs
    assert SECRET not in caplog.text


def _dump(app: TangramApp) -> Iterator[bytes]:
    for key in app.redis.scan_iter():
        yield key
        yield app.redis.dump(key) or b""


def tangram(*arguments: str) -> str:
    from tangram_tasks.settings import settings

    settings.cache_clear()
    try:
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    finally:
        settings.cache_clear()
    assert result.exit_code == 0, result.output
    return result.output


def tangram_json(*arguments: str) -> Any:
    import json

    return json.loads(tangram(*arguments, "-o", "json"))
