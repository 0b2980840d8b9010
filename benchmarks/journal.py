"""What recording a call (`action_key`) adds to its completion time, against the same call without a key, in turn."""

from __future__ import annotations

import statistics
import time
from typing import Any

from benchmarks.machine import machine
from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import TangramApp

CALLS = 300
WARM_UP = 20
#: The mean ACT of the demo's actions, s (README.md): what the cost is set against.
ACT = 0.43
LIMIT = 0.02


def run() -> dict[str, Any]:
    """Measure; times in ms."""
    provider = ProviderConfig(base_url="http://127.0.0.1:9", concurrency=4)
    node = ApiNodeConfig(name="journal", providers={"noop": provider}, concurrency=4)
    with Stack(StackConfig(persistent=True, api=(node,), imports=("benchmarks.hop_tasks",))) as stack:
        app = TangramApp("client", broker=stack.broker_url)
        app.remote_action("hop.gated", api="noop")
        plain, keyed, replayed = _measure(app)
        app.close()
    added = statistics.median(keyed) - statistics.median(plain)
    share = added / 1000 / ACT
    return {
        "name": "journal",
        "value": round(100 * share, 3),
        "unit": f"% of an ACT of {ACT:g} s",
        "reach": "<= 2 %",
        "holds": share <= LIMIT,
        "n": CALLS,
        "spread": {"added_iqr_ms": _round(_quartiles(keyed, plain))},
        "machine": machine(),
        "detail": {
            "plain_ms": round(statistics.median(plain), 3),
            "keyed_ms": round(statistics.median(keyed), 3),
            "added_ms": round(added, 3),
            "replayed_ms": round(statistics.median(replayed), 3),
        },
    }


def _measure(app: TangramApp) -> tuple[list[float], list[float], list[float]]:
    """Return the times of calls without a key, with a new one, and with one whose result is recorded."""
    plain: list[float] = []
    keyed: list[float] = []
    replayed: list[float] = []
    for call in range(CALLS + WARM_UP):
        key = {"action_key": f"{call}"}
        for options, into in (({}, plain), (key, keyed), (key, replayed)):
            published = time.perf_counter()
            app.send_task("hop.gated", **options).get(timeout=30, interval=0.005)
            if call >= WARM_UP:
                into.append((time.perf_counter() - published) * 1000)
    return plain, keyed, replayed


def _quartiles(later: list[float], earlier: list[float]) -> list[float]:
    return statistics.quantiles([b - a for a, b in zip(sorted(earlier), sorted(later), strict=True)], n=4)


def _round(values: list[float]) -> list[float]:
    return [round(value, 3) for value in values]
