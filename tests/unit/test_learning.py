"""What the ends of actions teach."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import pytest

from scheduler.books import Books
from scheduler.core.admission import Admission
from scheduler.core.estimates import Estimates
from scheduler.entries import Entry
from scheduler.envelope import parse
from scheduler.learning import field_of, held_by_size, learn, remember
from scheduler.ledger import Ledger
from scheduler.nodes import NodeBook
from tangram_tasks import Amdahl, TangramApp
from tangram_tasks.grants import DoneRecord
from tangram_tasks.keys import Keys
from tangram_tasks.publisher import EnvelopeProducer
from tangram_tasks.report import ActionReport
from tangram_tasks.task import ActionTask


def report(units: int = 1, exec_s: float = 1.0, **fields: Any) -> ActionReport:
    return ActionReport(task="t.work", node="n", key="cpu", units=units, exec_s=exec_s, **fields)


@cache  # Celery shares tasks between apps, and complains of a second one of the same name
def task() -> ActionTask:
    app = TangramApp("unit", broker="redis://127.0.0.1:1/0", set_as_current=False)

    @app.action(name="t.work", cpu=(1, 2, 4), elasticity=Amdahl(serial=0.0), duration=1.0)
    def work() -> None: ...

    return work


def entry(**options: Any) -> Entry:
    producer = EnvelopeProducer()
    task().apply_async((), producer=producer, task_id="a1", **options)
    return Entry(1, parse(producer.envelope), 0)


@pytest.fixture
def books() -> Books:
    nobody = cast(Any, None)
    return Books(Ledger(nobody, Keys(), 1), Admission(), NodeBook(5.0), outcomes=nobody, clock=lambda: 1)


def done(exec_s: float, outcome: str = "ok", **fields: Any) -> DoneRecord:
    return DoneRecord(grant="g", action="a1", outcome=outcome, report=report(exec_s=exec_s, **fields))


def test_a_wrong_hint_heals(books: Books) -> None:
    assert entry().as_action(0, books.estimates).durations == (1000, 500, 250)
    for _ in range(100):
        learn(books, entry(), done(30.0))
    healed = entry().as_action(0, books.estimates).durations
    assert healed == pytest.approx((30_000, 15_000, 7_500), rel=0.1)


def test_buckets_are_learned_apart_and_begin_with_their_task(books: Books) -> None:
    for _ in range(50):
        learn(books, entry(bucket="big"), done(9.0))
        learn(books, entry(bucket="small"), done(1.0))
    base = {bucket: entry(bucket=bucket).as_action(0, books.estimates).durations[0] for bucket in ("big", "small", "x")}
    assert base["big"] == pytest.approx(9000, rel=0.1)
    assert base["small"] == pytest.approx(1000, rel=0.2)
    assert base["x"] == pytest.approx(5000, rel=0.1)


@pytest.mark.parametrize("outcome", ["error", "retry", "requeue", "refused", "ActionTimeout", "ignored"])
def test_only_success_teaches(books: Books, outcome: str) -> None:
    learn(books, entry(), done(30.0, outcome))
    learn(books, entry(), DoneRecord(grant="g", action="a1", outcome="ok"))
    assert books.estimates.confidence("t.work", "") == 0


def test_what_was_learned_is_kept_and_inherited(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, bytes] = {}
    monkeypatch.setattr(books.batch, "estimate", lambda name, row: kept.__setitem__(name, row.encode()))
    for _ in range(20):
        learn(books, entry(bucket="b"), done(5.0))
    assert kept.keys() == {field_of(("t.work", "")), field_of(("t.work", "b"))}
    heir = Estimates()
    remember(heir, kept)
    wanted = entry(bucket="b")
    assert wanted.as_action(0, heir) == wanted.as_action(0, books.estimates)
    assert heir.confidence("t.work", "b") > 0.8


def test_rows_that_cannot_be_read_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    estimates = Estimates()
    rows = {"nonsense": b"{}", '["t", ""]': b"[1]", '["u"]': b"{}", '["v", ""]': b'{"1": [1, 5]}'}
    remember(estimates, rows)
    assert estimates.row(("v", "")) == {"1": [1, 5]}
    assert caplog.text.count("is ignored") == 3


@pytest.mark.parametrize(
    ("one", "held"),
    [
        (report(units=2, exec_s=3.0), [(2, 3000)]),
        (report(units=0, exec_s=3.0), [(1, 3000)]),  # light
        (report(exec_s=4.0, units_over_time=((0.0, 1), (1.0, 4))), [(1, 1000), (4, 3000)]),
        (report(exec_s=4.0, units_over_time=((0.0, 1), (1.0, 4), (2.0, 1))), [(1, 3000), (4, 1000)]),
        (report(exec_s=4.0, overhead_s=4.0, units_over_time=((0.0, 1), (4.0, 2))), [(1, 2000), (2, 2000)]),
        (report(exec_s=0.0), [(1, 1)]),
        (report(units=3, exec_s=1.0), []),
    ],
)
def test_the_time_at_each_size(one: ActionReport, held: list[tuple[int, int]]) -> None:
    assert held_by_size(one, (1, 2, 4)) == held
