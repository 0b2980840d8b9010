"""Prometheus metrics of a deployment, counted in the scheduler's process from what the scheduler hears anyway.

No label names an action, a trajectory, a container or a process. Workers count nothing: their processes come and go.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from monitoring.label_set import LabelSet
from monitoring.present_metrics import Present, PresentMetrics
from monitoring.unit_clock import Place, UnitClock
from scheduler.books import Books
from scheduler.core.domain import API_PREFIX, CPU
from scheduler.core.gpu_node import GPU
from scheduler.core.views import Holdings
from scheduler.entries import Entry
from scheduler.facts import Ended, Fact, Granted, Leads, Looked, Refused, Released, Resigned, Stepped, Waits
from tangram_tasks.report import ActionReport

_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_ROUND = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
_UNITS = (0, 1, 2, 4, 8, 16, 32, 64)
#: Different task names that get series of their own, and outcomes.
TASKS, OUTCOMES = 200, 40


class Metrics:
    """A watcher that counts.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = registry = CollectorRegistry()
        self.act = Histogram(
            "tangram_action_act_seconds", "ACT: queue, overhead and execution.", ["task", "outcome"],
            registry=registry, buckets=_SECONDS,
        )  # fmt: skip
        self.phase = Histogram(
            "tangram_action_phase_seconds", "Parts of the ACT: queue, overhead, exec.", ["task", "phase"],
            registry=registry, buckets=_SECONDS,
        )  # fmt: skip
        self.actions = Counter("tangram_actions", "Actions that ended.", ["task", "outcome"], registry=registry)
        self.units = Histogram(
            "tangram_grant_units", "Units granted at first.", ["resource", "task"], registry=registry, buckets=_UNITS
        )
        self.lost = Counter("tangram_leases_lost", "Grants taken back.", ["reason"], registry=registry)
        self.oldest = Gauge("tangram_queue_oldest_age_seconds", "How long the oldest one waits.", registry=registry)
        self.spent = Counter("tangram_resource_granted_unit_seconds", "Units granted, times seconds.",
                             ["resource", "node"], registry=registry)  # fmt: skip
        self.round = Histogram(
            "tangram_scheduler_round_seconds", "One step of the scheduler.", registry=registry, buckets=_ROUND
        )
        self.leader = Gauge("tangram_scheduler_leader", "1 if this scheduler leads.", registry=registry)
        self._present = PresentMetrics()
        registry.register(self._present)
        self._tasks, self._outcomes = LabelSet(TASKS), LabelSet(OUTCOMES)
        self._clock = UnitClock(self._spend, clock)
        self._series = cache(_labelled)  # bounded by the sets above; several times as fast as asking the metric

    def __call__(self, fact: Fact) -> None:
        """Hear a fact."""
        match fact:
            case Waits(entry):
                self._waits(entry)
            case Granted(entry, grant):
                self._change(entry, grant.node, grant.units)
                self._series(self.units, _key(entry), self._tasks(entry.envelope.task)).observe(grant.units)
            case Released(entry) if entry.record is not None:
                self._change(entry, entry.record.node, -entry.record.units)
            case Ended(entry, record):
                self._ends(entry.envelope.task, record.outcome, record.report)
            case Refused(envelope, outcome):
                self._ends(envelope.task, outcome, None)
            case Stepped(seconds):
                self.round.observe(seconds)
            case Looked(books):
                self._look(books)
            case Leads():
                self.leader.set(1)
            case Resigned():
                self._forget()
            case _:
                pass

    def _waits(self, entry: Entry) -> None:
        if entry.unstarted:
            self._series(self.lost, "unstarted").inc()
        elif entry.envelope.header.attempts:
            self._series(self.lost, "node_lost").inc()

    def _change(self, entry: Entry, node: str, units: int) -> None:
        key = _key(entry)
        self._clock.change((key, key if key.startswith(API_PREFIX) else node), units)

    def _ends(self, task: str, outcome: str, report: ActionReport | None) -> None:
        task, outcome = self._tasks(task), self._outcomes(outcome)
        self._series(self.actions, task, outcome).inc()
        if report is not None:
            self._series(self.act, task, outcome).observe(report.act_s)
            self._series(self.phase, task, "queue").observe(report.queue_s)
            self._series(self.phase, task, "overhead").observe(report.overhead_s)
            self._series(self.phase, task, "exec").observe(report.exec_s)

    def _look(self, books: Books) -> None:
        rows, entries = books.core.holdings(), books.entries
        waiting = len(entries.by_action) - len(entries.by_grant)
        aside = max(0, waiting - sum(row.waiting for row in rows))
        self._present.now = Present(tuple(books.nodes.alive.values()), tuple(rows), aside)
        first = next((entry for entry in entries.by_action.values() if entry.grant is None), None)
        self.oldest.set(0 if first is None else max(0.0, (books.clock() - first.arrival) / 1000))
        self._clock.set_all(dict(_key_units(row) for row in rows))

    def _forget(self) -> None:
        self.leader.set(0)
        self.oldest.set(0)
        self._present.now = Present()
        self._clock.set_all({})

    def _spend(self, place: Place, unit_seconds: float) -> None:
        self._series(self.spent, *place).inc(unit_seconds)


def _labelled(metric: Any, *values: str) -> Any:
    return metric.labels(*values)


def _key(entry: Entry) -> str:
    return entry.envelope.header.spec.demand.key


def _key_units(row: Holdings) -> tuple[Place, int]:
    key = next((name for name in (CPU, GPU) if name in row.capacity), row.domain)
    return (key, row.domain), row.granted.get(key, 0)
