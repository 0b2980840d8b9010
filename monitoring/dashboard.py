"""The Grafana dashboard: `python -m monitoring.dashboard > tangram.json`, then import the file."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

_W, _H = 8, 8  # a panel's size on Grafana's grid, which is 24 wide


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture.

    Args:
        title: above it.
        kind: Grafana's name: "timeseries", "stat", "heatmap", "state-timeline".
        unit: Grafana's name of the unit.
        lines: legend to PromQL expression.
    """

    title: str
    kind: str
    unit: str
    lines: dict[str, str]


def _quantile(q: float, metric: str, by: str = "le") -> str:
    return f"histogram_quantile({q}, sum by ({by}) (rate({metric}_bucket[$__rate_interval])))"


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


_ACT, _PHASE = "tangram_action_act_seconds", "tangram_action_phase_seconds"
_SPENT = "tangram_resource_granted_unit_seconds_total"

ROWS: dict[str, tuple[Panel, ...]] = {
    "Action completion time": (
        Panel("ACT p50, p95, p99", "timeseries", "s", {
            f"p{round(q * 100)} {{{{task}}}}": _quantile(q, _ACT, "le, task") for q in (0.5, 0.95, 0.99)
        }),
        Panel("ACT of all actions", "heatmap", "s", {"{{le}}": _rate(f"{_ACT}_bucket", "le")}),
        Panel("Where the time goes", "timeseries", "percentunit", {"{{phase}}": "tangram:phase:share"}),
    ),
    "Resources": (
        Panel("Utilisation", "timeseries", "percentunit", {
            "{{resource}} {{node}}": f"{_rate(_SPENT, 'resource, node')}"
            " / sum by (resource, node) (tangram_resource_capacity_units)"
        }),
        Panel("Held and there", "timeseries", "short", {
            "held {{resource}}": "sum by (resource) (tangram_resource_granted_units)",
            "there {{resource}}": "sum by (resource) (tangram_resource_capacity_units)",
        }),
        Panel("Live nodes", "stat", "short", {"{{kind}}": "sum by (kind) (tangram_node_up)"}),
    ),
    "Queue": (
        Panel("Waiting", "timeseries", "short", {"{{place}}": "sum by (place) (tangram_queue_actions)"}),
        Panel("Oldest", "timeseries", "s", {"oldest": "max(tangram_queue_oldest_age_seconds)"}),
        Panel("Time of one step", "timeseries", "s", {
            "p50": _quantile(0.5, "tangram_scheduler_round_seconds"),
            "p99": _quantile(0.99, "tangram_scheduler_round_seconds"),
        }),
    ),
    "Elasticity": (
        Panel("Units granted", "heatmap", "short", {"{{le}}": _rate("tangram_grant_units_bucket", "le")}),
        Panel("Mean grant", "timeseries", "short", {
            "{{resource}} {{task}}": f"{_rate('tangram_grant_units_sum', 'resource, task')}"
            f" / {_rate('tangram_grant_units_count', 'resource, task')}"
        }),
        Panel("Grants", "timeseries", "ops", {"{{resource}}": _rate("tangram_grant_units_count", "resource")}),
    ),
    "Reward services": (
        Panel("Resident", "state-timeline", "short", {
            "{{service}} on {{node}}": "sum by (service, node) (tangram_service_resident)"
        }),
        Panel("Found paged in", "timeseries", "percentunit", {"hits": "tangram:service_hits:ratio"}),
        Panel("Paged in and out", "timeseries", "ops", {
            "in {{node}}": _rate("tangram_service_restores_total", "node"),
            "out {{node}}": _rate("tangram_service_evictions_total", "node"),
        }),
    ),
    "Failures": (
        Panel("Actions by outcome", "timeseries", "ops", {"{{outcome}}": _rate("tangram_actions_total", "outcome")}),
        Panel("Grants taken back", "timeseries", "ops", {"{{reason}}": _rate("tangram_leases_lost_total", "reason")}),
        Panel("Leaders", "stat", "short", {"leaders": "sum(tangram_scheduler_leader)"}),
    ),
    "Sandboxes": (
        Panel("Sandboxes", "timeseries", "short", {"{{state}} {{node}}": "sum by (state, node) (tangram_sandboxes)"}),
        Panel("Resizes", "timeseries", "ops", {"{{node}}": _rate("tangram_node_resizes_total", "node")}),
        Panel("Grants that a node refused", "timeseries", "ops", {
            "{{node}}": _rate("tangram_node_grants_refused_total", "node")
        }),
    ),
}  # fmt: skip


def expressions() -> list[str]:
    """Return every PromQL expression, with a fixed window in place of Grafana's."""
    lines = [line for panels in ROWS.values() for panel in panels for line in panel.lines.values()]
    return [line.replace("$__rate_interval", "1m") for line in lines]


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana reads it."""
    panels: list[dict[str, Any]] = []
    for height, (title, row) in enumerate(ROWS.items()):
        top = height * (_H + 1)
        panels.append({"type": "row", "title": title, "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}})
        panels += [_panel(panel, x * _W, top + 1) for x, panel in enumerate(row)]
    return {
        "title": "Tangram",
        "uid": "tangram",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": [{**panel, "id": number} for number, panel in enumerate(panels, 1)],
    }


def _panel(panel: Panel, x: int, y: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "expr": line, "legendFormat": legend}
        for number, (legend, line) in enumerate(panel.lines.items())
    ]
    if panel.kind == "heatmap":
        targets = [{**target, "format": "heatmap"} for target in targets]
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"x": x, "y": y, "w": _W, "h": _H},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=2)
