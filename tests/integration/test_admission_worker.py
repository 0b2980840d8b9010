"""The scheduler as a Celery worker: what Celery's own tools see and may do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import TaskRevokedError

from compose.embedded import Stack
from tangram_tasks import Infeasible, TangramApp
from tests.support import actions
from tests.support.seeing import busy_config
from tests.waiting import wait_until

WAIT = 20


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(busy_config()) as stack:
        yield stack


@pytest.fixture(scope="module")
def plain(stack: Stack) -> Iterator[Any]:
    """Celery as a stranger has it, without our classes."""
    with Celery("stranger", broker=stack.broker_url, set_as_current=False) as plain:
        yield plain


def admission() -> str:
    return f"admission@{socket.gethostname()}"


def asked(plain: Any, method: str, *arguments: Any) -> Any:
    inspect = plain.control.inspect([admission()], timeout=5, limit=1)
    return (getattr(inspect, method)(*arguments) or {}).get(admission())


@contextlib.contextmanager
def events_of(plain: Any) -> Iterator[list[dict[str, Any]]]:
    """Collect events until the end of the block, beginning with the next heartbeat."""
    seen: list[dict[str, Any]] = []
    over = threading.Event()

    def listen() -> None:
        with plain.connection_for_read() as connection:
            receiver = plain.events.Receiver(connection, handlers={"*": seen.append})
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    for _ in receiver.itercapture(limit=None, timeout=0.2):
                        if over.is_set():
                            break

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        wait_until(lambda: bool(seen), "a heartbeat comes")
        yield seen
    finally:
        over.set()
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def waiting(app: TangramApp) -> Iterator[list[Any]]:
    """Two calls that run and three that wait."""
    results = [actions.nap.delay(3) for _ in range(5)]
    wait_until(lambda: app.redis.hlen(app.keys.running) == 2, "two run")
    wait_until(lambda: app.redis.hlen(app.keys.pending) == 3, "three wait")
    yield results
    for result in results:
        app.control.revoke(result.id)
    wait_until(lambda: app.redis.hlen(app.keys.grants) == 0, "all units are back", 40)


def test_waiting_actions_are_reserved_with_their_demand(app: TangramApp, plain: Any, waiting: list[Any]) -> None:
    reserved = asked(plain, "reserved")
    assert [row["id"] for row in reserved] == [result.id for result in waiting[2:]]
    assert reserved[0]["name"] == "t.nap"
    assert reserved[0]["args"] == "(3,)"
    assert "needs api:noop=1" in reserved[0]["kwargs"]
    active = asked(plain, "active")
    assert {row["id"] for row in active} == {result.id for result in waiting[:2]}
    assert "granted api:noop=1 on api-1" in active[0]["kwargs"]
    assert asked(plain, "query_task", waiting[4].id)[waiting[4].id][0] == "reserved"


def test_stats_name_what_each_place_has_and_gives(plain: Any, waiting: list[Any]) -> None:
    stats = asked(plain, "stats")
    assert (stats["waiting"], stats["running"], stats["paused"]) == (3, 2, False)
    assert stats["places"]["api:noop"] == "granted api:noop=2 of api:noop=2; 2 running, 3 waiting"
    assert stats["events_dropped"] == 0


def test_the_granted_copy_shows_its_grant(plain: Any, waiting: list[Any]) -> None:
    plain.control.enable_events()
    with events_of(plain) as seen:
        quick = actions.on_cpu.delay()
        assert quick.get(timeout=WAIT) == 2
        wait_until(lambda: any(event.get("uuid") == quick.id for event in seen), "its events come")
        (event,) = [event for event in seen if event.get("uuid") == quick.id and event["type"] == "task-received"]
    assert event["hostname"].startswith("cpu-1@")
    assert event["kwargs"] == "{} granted cpu=2 on cpu-1"


def test_no_password_leaves_the_scheduler(app: TangramApp, plain: Any) -> None:
    password = app.url.partition("@")[0].rpartition(":")[2]
    assert len(password) > 8
    assert password not in str(asked(plain, "conf")) + str(asked(plain, "stats"))


def test_a_strangers_revoke_cancels_what_waits_and_what_runs(app: TangramApp, plain: Any) -> None:
    results = [actions.nap.delay(3) for _ in range(3)]
    wait_until(lambda: app.redis.hlen(app.keys.running) == 2, "two run")
    plain.control.revoke(results[2].id, destination=[admission()])
    with pytest.raises(TaskRevokedError):
        results[2].get(timeout=WAIT)
    plain.control.revoke([result.id for result in results[:2]], destination=[admission()])
    wait_until(lambda: app.redis.hlen(app.keys.grants) == 0, "all units are back", 40)


def test_pause_keeps_new_actions_on_the_list_even_over_a_new_leader(app: TangramApp, plain: Any, stack: Stack) -> None:
    (answer,) = plain.control.cancel_consumer("tangram.admission", destination=[admission()], reply=True)
    assert "ok" in next(iter(answer.values()))
    wait_until(lambda: asked(plain, "stats")["paused"], "it is paused")
    stack.kill("scheduler")
    result = actions.add.delay(1, 2)
    wait_until(lambda: asked(plain, "stats") is not None, "it is back", 30)
    assert asked(plain, "stats")["paused"]
    assert app.redis.llen("tangram.admission") == 1
    plain.control.add_consumer("tangram.admission", destination=[admission()])
    assert result.get(timeout=WAIT) == 3


def test_no_node_can_be_told_to_read_the_admission_list_or_another_nodes_queue(app: TangramApp, plain: Any) -> None:
    for queue in ("tangram.admission", "cpu.other"):
        answers = plain.control.add_consumer(queue, reply=True, timeout=5, limit=3)
        nodes = {name.partition("@")[0]: answer for row in answers for name, answer in row.items()}
        assert nodes.keys() == {"api-1", "cpu-1", "admission"}
        for node in ("api-1", "cpu-1"):
            assert nodes[node]["error"].endswith(f"and never {queue}")
    assert actions.add.delay(1, 2).get(timeout=WAIT) == 3


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("pool_grow", {"n": 2}), ("pool_shrink", {"n": 1}), ("autoscale", {"max": 2, "min": 1}), ("shutdown", {}),
     ("add_consumer", {"queue": "elsewhere"}), ("no_such_command", {})],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    plain: Any, command: str, arguments: dict[str, Any]
) -> None:
    name = admission()
    (answer,) = plain.control.broadcast(command, arguments=arguments, destination=[name], reply=True)
    assert answer[name]["error"]
    assert asked(plain, "ping") == {"ok": "pong"}


def test_events_say_who_waits_and_who_will_not_run(app: TangramApp, plain: Any) -> None:
    plain.control.enable_events(destination=[admission()])
    with events_of(plain) as seen:

        def of(kind: str) -> list[dict[str, Any]]:
            ours = [event for event in list(seen) if event["hostname"] == admission()]
            return [event for event in ours if event["type"] == kind]

        results = [actions.nap.delay(3) for _ in range(3)]
        with pytest.raises(Infeasible):
            actions.huge.delay().get(timeout=WAIT)
        wait_until(lambda: bool(of("task-received")), "the waiting one is announced")
        app.control.revoke(results[2].id)
        wait_until(lambda: bool(of("task-revoked")), "its end is announced")
        wait_until(lambda: len(of("tangram-actions")) >= 2, "grants and ends are told")
    assert [event["uuid"] for event in of("task-received")] == [results[2].id]  # the others had their grant at once
    assert "needs api:noop=1" in of("task-received")[0]["kwargs"]
    assert of("task-failed")[0]["exception"].startswith("Infeasible(")
    rows = {row[0]: row[1:] for event in of("tangram-actions") for row in event["rows"]}
    assert rows[results[0].id][:3] == ["api:noop=1", "api:noop=1", "api-1"]
    wait_until(lambda: app.redis.hlen(app.keys.grants) == 0, "all units are back", 40)
