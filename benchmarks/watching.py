"""What it costs the scheduler's loop, per action, that events, metrics and the live page are kept up to date.

The sender's thread is not in it; it takes at most 500 actions every 0.25 s, however many there are.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.machine import machine
from monitoring.event_buffer import EventBuffer
from monitoring.metrics import Metrics
from monitoring.scene import Scene
from scheduler.entries import Entry
from scheduler.envelope import parse
from scheduler.facts import Ended, Fact, Granted, Released, Waits
from tangram_tasks.app import TangramApp
from tangram_tasks.grants import DoneRecord, GrantRecord
from tangram_tasks.publisher import EnvelopeProducer
from tangram_tasks.report import ActionReport
from tangram_tasks.wire import GrantHeader

ACTIONS, ROUNDS = 2000, 9
REACH = 50.0


def run() -> dict[str, Any]:
    """Measure; microseconds of processor time per action."""
    app = TangramApp("bench", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.remote_action("bench.run", cpu=(1, 2, 4))
    with EnvelopeProducer() as producer:
        app.send_task("bench.run", producer=producer, ignore_result=True)
        content = json.loads(producer.take())
    facts = [fact for number in range(ACTIONS) for fact in _life(content, number)]
    silent, loud = EventBuffer(), EventBuffer()
    loud.enabled = True
    parts: dict[str, Callable[[Fact], None]] = {
        "events_off": silent.hear,
        "events_on": loud.hear,
        "metrics": Metrics(),
        "scene": Scene().hear,
    }
    times = {name: _measure(watcher, facts, loud) for name, watcher in parts.items()}
    medians = {name: round(statistics.median(rounds), 2) for name, rounds in times.items()}
    total = round(medians["events_on"] + medians["metrics"] + medians["scene"], 2)
    return {
        "name": "watching",
        "value": total,
        "unit": "us of CPU per action, all on",
        "reach": f"<= {REACH:g} us",
        "holds": total <= REACH,
        "n": ACTIONS * ROUNDS,
        "spread": {name: [round(min(rounds), 2), round(max(rounds), 2)] for name, rounds in times.items()},
        "machine": machine(),
        "detail": medians,
    }


def _measure(watcher: Callable[[Fact], None], facts: list[Fact], buffer: EventBuffer) -> list[float]:
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for fact in facts:
            watcher(fact)
        rounds.append((time.process_time() - began) / ACTIONS * 1e6)
        while buffer.take().columns:
            pass
    return rounds


def _life(content: dict[str, Any], number: int) -> list[Fact]:
    action = f"action-{number}"
    content["headers"]["id"] = content["properties"]["correlation_id"] = action
    entry = Entry(seq=number, envelope=parse(json.dumps(content)), arrival=100_000)
    grant = GrantHeader(id=f"1-{number}", node="cpu-1", units=2, granted_at=101.0, queue_s=1.0)
    entry.grant = grant.id
    entry.record = GrantRecord(seq=number, action=action, node="cpu-1", generation="g", units=2, at=101_000)
    report = ActionReport(task="bench.run", node="cpu-1", key="cpu", units=2, queue_s=1.0, exec_s=2.0)
    done = DoneRecord(grant=grant.id, action=action, outcome="ok", report=report)
    return [Waits(entry), Granted(entry, grant), Ended(entry, done), Released(entry)]
