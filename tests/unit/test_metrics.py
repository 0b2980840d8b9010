"""What is counted, and that labels stay few."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import generate_latest

from monitoring.metrics import TASKS, Metrics
from monitoring.present_metrics import Present, PresentMetrics
from monitoring.unit_clock import UnitClock
from scheduler.core.views import Holdings
from scheduler.facts import Leads, Refused, Released, Resigned, Stepped, Waits
from tangram_tasks.wire import NodeRecord
from tests.support.facts import ended, entry, granted


class Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def metrics(watch: Watch) -> Metrics:
    return Metrics(clock=watch)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_an_action_from_grant_to_end(metrics: Metrics, watch: Watch) -> None:
    one = entry("a")
    metrics(granted(one, 4))
    watch.now = 2.5
    metrics(ended(one))
    metrics(Released(one))
    watch.now = 100.0
    metrics(granted(entry("b"), 1))
    assert value(metrics, "tangram_resource_granted_unit_seconds_total", resource="cpu", node="cpu-1") == 10.0
    assert value(metrics, "tangram_actions_total", task="t.run", outcome="ok") == 1
    assert value(metrics, "tangram_action_act_seconds_sum", task="t.run", outcome="ok") == pytest.approx(3.51)
    for phase, seconds in (("queue", 1.5), ("overhead", 0.01), ("exec", 2.0)):
        assert value(metrics, "tangram_action_phase_seconds_sum", task="t.run", phase=phase) == pytest.approx(seconds)
    assert value(metrics, "tangram_grant_units_bucket", resource="cpu", task="t.run", le="4.0") == 2
    assert value(metrics, "tangram_grant_units_bucket", resource="cpu", task="t.run", le="2.0") == 1


def test_refusals_and_lost_leases(metrics: Metrics) -> None:
    one = entry("a")
    metrics(Refused(one.envelope, "Infeasible"))
    one.unstarted = 1
    metrics(Waits(one))
    assert value(metrics, "tangram_actions_total", task="t.run", outcome="Infeasible") == 1
    assert value(metrics, "tangram_leases_lost_total", reason="unstarted") == 1


def test_who_leads_and_how_long_steps_take(metrics: Metrics) -> None:
    nothing: Any = None
    metrics(Leads(nothing))
    metrics(Stepped(0.003))
    assert value(metrics, "tangram_scheduler_leader") == 1
    assert value(metrics, "tangram_scheduler_round_seconds_sum") == 0.003
    metrics(Resigned())
    assert value(metrics, "tangram_scheduler_leader") == 0


def test_names_from_outside_make_a_bounded_number_of_series(metrics: Metrics) -> None:
    for number in range(TASKS * 3):
        metrics(Refused(entry("a", task=f"t.{number}").envelope, "Infeasible"))
    series = generate_latest(metrics.registry).decode().count("tangram_actions_total{")
    assert series == TASKS + 1
    assert value(metrics, "tangram_actions_total", task="other", outcome="Infeasible") == TASKS * 2


def test_what_is_there_now() -> None:
    metrics = Metrics()
    present = PresentMetrics()
    metrics.registry = type(metrics.registry)()
    metrics.registry.register(present)
    record = NodeRecord(
        node="gpu-1", kind="gpu", generation="g", capacity={"gpu": 2}, stats={"hits": 3, "resident.minilm": 1}
    )
    place = Holdings("gpu-1", {"gpu": 2}, {"gpu": 1}, running=1, waiting=4)
    present.now = Present((record,), (place,), aside=2)
    assert value(metrics, "tangram_queue_actions", place="gpu-1") == 4
    assert value(metrics, "tangram_queue_actions", place="none") == 2
    assert value(metrics, "tangram_resource_granted_units", resource="gpu", node="gpu-1") == 1
    assert value(metrics, "tangram_service_hits_total", node="gpu-1") == 3
    assert value(metrics, "tangram_service_resident", node="gpu-1", service="minilm") == 1
    present.now = Present()
    assert value(metrics, "tangram_service_hits_total", node="gpu-1") is None


def test_the_books_have_the_last_word_on_what_is_held(watch: Watch) -> None:
    spent: list[tuple[Any, float]] = []
    clock = UnitClock(lambda place, seconds: spent.append((place, seconds)), watch)
    clock.change(("cpu", "a"), 4)
    watch.now = 1.0
    clock.set_all({("cpu", "a"): 2})
    watch.now = 2.0
    clock.set_all({})
    watch.now = 9.0
    clock.change(("cpu", "a"), 1)
    assert spent == [(("cpu", "a"), 4.0), (("cpu", "a"), 2.0)]
