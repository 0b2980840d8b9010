"""A real Flower over its HTTP API, with our columns and controls."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from compose.embedded import Stack
from tangram_tasks import TangramApp
from tests.support import actions
from tests.support.browser import look
from tests.support.clients import client_of
from tests.support.seeing import busy_config, fetch, free_port, tangram
from tests.waiting import wait_until

LOGIN = "tangram:one-two-three"


class Flower:
    def __init__(self, base: str, app: TangramApp) -> None:
        self.base, self.app = base, app

    def get(self, path: str) -> Any:
        return json.loads(fetch(self.base + path, login=LOGIN))

    def post(self, path: str) -> Any:
        return json.loads(fetch(self.base + path, login=LOGIN, method="POST"))

    def page(self, path: str) -> str:
        return fetch(self.base + path, login=LOGIN).decode()

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the list of tasks as the page loads it, by id."""
        query = urlencode({"draw": 1, "start": 0, "length": 100, "order[0][column]": 0, "columns[0][data]": "name"})
        return {row["uuid"]: row for row in self.get(f"/tasks/datatable?{query}")["data"]}


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flower]:
    secret: Path = tmp_path_factory.mktemp("flower") / "password"
    secret.write_text(LOGIN.partition(":")[2] + "\n")
    port = free_port()
    options = ["flower", "--port", str(port), "--password-file", str(secret)]
    base = f"http://127.0.0.1:{port}"
    with (
        Stack(busy_config()) as stack,
        client_of(stack) as app,
        tangram(stack.broker_url, *options, ready=base + "/healthcheck"),
    ):
        flower = Flower(base, app)
        wait_until(lambda: "admission@" in str(flower.get("/api/workers?refresh=1")), "Flower sees the scheduler")
        yield flower


def admission(flower: Flower) -> str:
    return next(str(name) for name in flower.get("/api/workers") if name.startswith("admission@"))


def enabled(flower: Flower) -> None:
    """Wait until events flow: Flower asks for them every 5 s."""

    def seen() -> bool:
        probe = actions.add.delay(1, 2)
        probe.get(timeout=20)
        return bool(flower.rows())

    wait_until(seen, "events flow", 30)


@pytest.mark.parametrize("path", ["/", "/tasks", "/workers", "/broker", "/api/workers"])
def test_nothing_is_shown_without_the_password(flower: Flower, path: str) -> None:
    for login in ("", "tangram:wrong"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            fetch(flower.base + path, login=login)
        assert caught.value.code == 401
        caught.value.close()


def test_our_columns_follow_an_action_to_its_node(flower: Flower) -> None:
    enabled(flower)
    result = actions.on_cpu.delay()
    assert result.get(timeout=20) == 2
    wait_until(lambda: bool(flower.rows().get(result.id, {}).get("overhead")), "the columns are filled")
    row = flower.rows()[result.id]
    assert (row["demand"], row["granted"], row["node"]) == ("cpu=1..2", "cpu=2", "cpu-1")
    assert row["queued"].endswith(" s")
    assert row["overhead"].endswith(" ms")
    assert row["worker"].startswith("cpu-1@")
    assert row["state"] == "SUCCESS"
    for header in ("Demand", "Granted", "Node", "Queued", "Overhead"):
        assert header in flower.page("/tasks")


def test_waiting_actions_stand_at_the_scheduler_and_can_be_revoked_there(flower: Flower) -> None:
    enabled(flower)
    results = [actions.nap.delay(6) for _ in range(3)]
    last = results[2].id
    wait_until(lambda: last in flower.rows(), "the waiting action is listed")
    row = flower.rows()[last]
    assert row["state"] == "RECEIVED"
    assert row["worker"] == admission(flower)
    assert "needs api:noop=1" in row["kwargs"]
    for result in results:
        flower.post(f"/api/task/revoke/{result.id}")
    wait_until(lambda: flower.rows()[last]["state"] == "REVOKED", "it is revoked")
    wait_until(lambda: flower.app.redis.hlen(flower.app.keys.grants) == 0, "all units are back", 40)


def test_the_broker_page_counts_what_no_scheduler_has_taken_in(flower: Flower) -> None:
    queues = {row["name"]: row["messages"] for row in flower.get("/api/queues/length")["active_queues"]}
    assert queues["tangram.admission"] == 0
    assert {"cpu.cpu-1", "api.api-1"} <= queues.keys()
    name = quote(admission(flower))
    flower.post(f"/api/worker/queue/cancel-consumer/{name}?queue=tangram.admission")
    wait_until(lambda: bool(flower.app.redis.exists(flower.app.keys.paused)), "it is paused")
    result = actions.add.delay(1, 2)
    queues = {row["name"]: row["messages"] for row in flower.get("/api/queues/length")["active_queues"]}
    assert queues["tangram.admission"] == 1
    flower.post(f"/api/worker/queue/add-consumer/{name}?queue=tangram.admission")
    assert result.get(timeout=20) == 3


def test_growing_the_scheduler_is_refused_with_the_reason(flower: Flower) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        flower.post(f"/api/worker/pool/grow/{quote(admission(flower))}?n=2")
    assert caught.value.code == 403
    assert "tangram worker" in caught.value.read().decode()
    caught.value.close()


def test_the_workers_page_of_the_scheduler_names_its_places(flower: Flower) -> None:
    fetch(f"{flower.base}/api/workers?refresh=1&workername={quote(admission(flower))}", login=LOGIN)
    assert "running, 0 waiting" in flower.page(f"/worker/{quote(admission(flower))}")


@pytest.mark.browser
def test_a_browser_shows_our_columns(flower: Flower) -> None:
    enabled(flower)
    actions.on_cpu.delay().get(timeout=20)
    seen = look(flower.base.replace("//", f"//{LOGIN}@") + "/tasks", until="cpu=1..2")
    assert "Overhead" in seen.html
    assert len(seen.picture) > 10_000
