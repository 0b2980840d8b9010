"""Entries and facts of a scheduler that never ran."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from scheduler.entries import Entry
from scheduler.envelope import parse
from scheduler.facts import Ended, Granted
from tangram_tasks.action import ActionSpec, declare
from tangram_tasks.app import TangramApp
from tangram_tasks.grants import DoneRecord, GrantRecord
from tangram_tasks.publisher import EnvelopeProducer
from tangram_tasks.report import ActionReport
from tangram_tasks.wire import GrantHeader


def entry(action: str, spec: ActionSpec | None = None, *, task: str = "t.run", **headers: Any) -> Entry:
    """Return a waiting action; by default one that wants 1, 2 or 4 cores."""
    app = _app()
    app.remote_specs[task] = spec or declare(cpu=(1, 2, 4))
    with EnvelopeProducer() as producer:
        app.send_task(task, task_id=action, producer=producer, ignore_result=True)
        content = json.loads(producer.take())
    content["headers"].update(headers)
    return Entry(seq=1, envelope=parse(json.dumps(content)), arrival=100_000)


@cache
def _app() -> TangramApp:
    return TangramApp("facts", broker="redis://127.0.0.1:1/0", set_as_current=False)


def granted(one: Entry, units: int, node: str = "cpu-1") -> Granted:
    """Give an entry a grant of so many units."""
    one.grant = f"1-{one.seq}-{one.envelope.action}"
    one.record = GrantRecord(
        seq=one.seq, action=one.envelope.action, node=node, generation="g", units=units, at=101_500
    )
    return Granted(one, GrantHeader(id=one.grant, node=node, units=units, granted_at=101.5, queue_s=1.5))


def ended(one: Entry, outcome: str = "ok", **times: float) -> Ended:
    """Let an entry that holds a grant end."""
    assert one.record is not None
    assert one.grant is not None
    report = ActionReport(
        task=one.envelope.task,
        node=one.record.node,
        key=one.envelope.header.spec.demand.key,
        units=one.record.units,
        **{"queue_s": 1.5, "overhead_s": 0.01, "exec_s": 2.0, **times},  # type: ignore[arg-type]  # all are floats
    )
    return Ended(one, DoneRecord(grant=one.grant, action=one.envelope.action, outcome=outcome, report=report))
