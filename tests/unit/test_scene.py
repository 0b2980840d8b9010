"""What the live page is told: pieces, places, and a reason for everybody who waits."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from monitoring.scene import BARS, QUEUE, Scene
from scheduler.books import Books
from scheduler.core.admission import Admission
from scheduler.core.estimates import Estimates
from scheduler.core.events import Grant, NodeJoined, Submitted
from scheduler.nodes import NodeBook
from tangram_tasks.action import declare
from tests.support.facts import ended, entry, granted


@pytest.fixture
def books() -> Books:
    ledger = cast("Any", type("Ledger", (), {"batch": lambda self: None})())
    books = Books(ledger, Admission("min"), NodeBook(5), cast("Any", None), lambda: int(time.time() * 1000))
    books.core.handle(NodeJoined(at=0, node="cpu-1", kind="cpu", capacity={"cpu": 2, "memory": 100}))
    return books


def submit(books: Books, action: str, **resources: Any) -> None:
    one = entry(action, declare(**resources))
    books.entries.add(one)
    for decision in books.core.handle(Submitted(at=1, action=one.as_action(1, Estimates()))):
        assert isinstance(decision, Grant)
        grant = granted(one, decision.units, decision.node).grant
        assert one.record is not None
        books.entries.hold(one, grant.id, one.record)


def test_who_runs_is_a_piece_and_who_waits_has_a_reason(books: Books) -> None:
    submit(books, "a", cpu=2)
    submit(books, "b", cpu=1)
    submit(books, "c", gpu=1)
    delayed = entry("d", declare(cpu=1), eta="2100-01-01T00:00:00+00:00")
    books.entries.add(delayed)
    scene = Scene().view(books)
    (bar,) = scene["bars"]
    assert (bar["id"], bar["place"], bar["units"], bar["end"]) == ("a", "cpu-1", 2, None)
    assert (scene["running"], scene["waiting"]) == (1, 3)
    (place,) = scene["places"]
    assert (place["name"], place["key"], place["capacity"], place["granted"], place["waiting"]) == (
        "cpu-1", "cpu", 2, 2, 1,
    )  # fmt: skip
    assert [(row["id"], row["position"], row["reason"]) for row in scene["queue"]] == [
        ("b", 1, "cpu-1 has cpu=0 free"),
        ("c", 1, "no live node has gpu"),
        ("d", None, "its eta has not come"),
    ]


def test_history_and_queue_are_bounded(books: Books) -> None:
    scene = Scene()
    for number in range(BARS * 2):
        one = entry(str(number))
        granted(one, 1)
        scene.hear(ended(one))
    for number in range(QUEUE * 2):
        submit(books, f"w{number}", gpu=1)
    view = scene.view(books)
    assert len(view["bars"]) == BARS
    assert len(view["queue"]) == QUEUE
    assert view["waiting"] == QUEUE * 2
