"""Metrics of what is there now: places with what they have and give, and what nodes announce with every heartbeat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from scheduler.core.views import Holdings
from tangram_tasks.wire import NodeRecord

_RESIDENT = "resident."
#: A node's own word for a counter, its name as a metric, and what it says.
_COUNTERS = (
    ("page_ins", "tangram_service_restores", "Services paged in."),
    ("hits", "tangram_service_hits", "Actions that found their service paged in."),
    ("page_outs", "tangram_service_evictions", "Services paged out."),
    ("bytes_in", "tangram_service_restored_bytes", "Bytes paged in."),
    ("resizes", "tangram_node_resizes", "Changes of a running action's size."),
    ("grants_refused", "tangram_node_grants_refused", "Grants that the node had no room for."),
    ("drift_total", "tangram_node_drift", "Settings of sandboxes that somebody else had changed."),
)
_SANDBOXES = (("sandboxes", "live"), ("warm_ready", "warm"))


@dataclass(frozen=True, slots=True)
class Present:
    """One moment.

    Args:
        nodes: what the live ones announced last.
        places: what each node or API has and has given.
        aside: actions that wait for a sandbox, their eta, or a node of their kind.
    """

    nodes: Sequence[NodeRecord] = ()
    places: Sequence[Holdings] = ()
    aside: int = 0


class PresentMetrics(Collector):
    """Shows a moment; replace `now` as a whole, since scrapes come from another thread."""

    def __init__(self) -> None:
        self.now = Present()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the moment."""
        now = self.now
        yield from _places(now)
        yield from _counters(now.nodes)
        yield from _gauges(now.nodes)


def _places(now: Present) -> Iterator[Metric]:
    queue = GaugeMetricFamily(
        "tangram_queue_actions", "Actions that wait, by place; none: nowhere yet.", labels=["place"]
    )
    place = ["resource", "node"]
    capacity = GaugeMetricFamily("tangram_resource_capacity_units", "Units or MiB that a place has.", labels=place)
    granted = GaugeMetricFamily("tangram_resource_granted_units", "Units or MiB that are held there.", labels=place)
    queue.add_metric(["none"], now.aside)
    for row in now.places:
        queue.add_metric([row.domain], row.waiting)
        for resource, amount in row.capacity.items():
            capacity.add_metric([resource, row.domain], amount)
            granted.add_metric([resource, row.domain], row.granted.get(resource, 0))
    yield from (queue, capacity, granted)


def _counters(records: Sequence[NodeRecord]) -> Iterator[Metric]:
    for word, name, text in _COUNTERS:
        counter = CounterMetricFamily(name, text, labels=["node"])
        for record in records:
            if word in record.stats:
                counter.add_metric([record.node], record.stats[word])
        yield counter


def _gauges(records: Sequence[NodeRecord]) -> Iterator[Metric]:
    sandboxes = GaugeMetricFamily("tangram_sandboxes", "Sandboxes, live or kept warm.", labels=["node", "state"])
    resident = GaugeMetricFamily(
        "tangram_service_resident", "Devices on which a service is paged in.", labels=["node", "service"]
    )
    up = GaugeMetricFamily("tangram_node_up", "1 for a live node, 0 if it drains.", labels=["node", "kind"])
    for record in records:
        up.add_metric([record.node, record.kind], float(not record.draining))
        for word, state in _SANDBOXES:
            if word in record.stats:
                sandboxes.add_metric([record.node, state], record.stats[word])
        for word, devices in record.stats.items():
            if word.startswith(_RESIDENT):
                resident.add_metric([record.node, word.removeprefix(_RESIDENT)], devices)
    yield from (sandboxes, resident, up)
