"""The live page of a real deployment in a real browser."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from compose.embedded import Stack
from tangram_tasks import TangramApp
from tests.support import actions
from tests.support.browser import look
from tests.support.seeing import busy_config, free_port, tangram
from tests.waiting import wait_until

EVIL = "t.<img src=x onerror=document.title='pwned'>"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(busy_config()) as stack:
        yield stack


@pytest.fixture(scope="module")
def url(stack: Stack) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tangram(stack.broker_url, "web", "--port", str(port), ready=url):
        yield url


def scene(url: str) -> Any:
    """Return the next scene of the stream."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    try:
        kind, data = answer.readline(), answer.readline()
        assert kind == b"event: scene\n", data
        return json.loads(data.removeprefix(b"data: "))
    finally:
        answer.close()
        connection.close()


@pytest.fixture
def busy(app: TangramApp) -> Iterator[list[Any]]:
    app.remote_action(EVIL, api="noop")
    app.remote_action("t.nowhere", gpu=1)
    results = [actions.nap.delay(8), actions.nap.delay(8), actions.nap.delay(1), app.send_task(EVIL)]
    results.append(app.send_task("t.nowhere"))
    assert actions.on_cpu.delay().get(timeout=20) == 2
    wait_until(lambda: app.redis.hlen(app.keys.pending) == 3, "three wait")
    yield results
    for result in results:
        app.control.revoke(result.id)
    wait_until(lambda: app.redis.hlen(app.keys.grants) == 0, "all units are back", 40)


def test_the_scene_has_pieces_places_and_reasons(url: str, busy: list[Any]) -> None:
    wait_until(lambda: len(scene(url)["queue"]) == 3, "the scene is up to date")
    now = scene(url)
    (api,) = [place for place in now["places"] if place["name"] == "api:noop"]
    assert (api["capacity"], api["granted"], api["waiting"]) == (2, 2, 2)
    held = {bar["id"]: bar for bar in now["bars"]}
    assert held[busy[0].id]["end"] is None
    (over,) = [bar for bar in now["bars"] if bar["task"] == "t.cpu"]
    assert (over["place"], over["units"]) == ("cpu-1", 2)
    assert over["end"] >= over["start"]
    reasons = {row["id"]: row["reason"] for row in now["queue"]}
    assert reasons[busy[2].id] == "api:noop has api:noop=0 free"
    assert reasons[busy[4].id] == "no live node has gpu"


@pytest.mark.browser
def test_a_browser_shows_it_and_takes_no_users_text_for_markup(url: str, busy: list[Any]) -> None:
    seen = look(url, until="t.&lt;img src=x onerror=")
    assert "<title>Tangram</title>" in seen.html
    assert "2 running" in seen.html
    assert "<img" not in seen.html
    assert '<rect x="' in seen.html
    assert len(seen.picture) > 10_000
