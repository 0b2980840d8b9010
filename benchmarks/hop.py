"""What the admission hop adds to the time from publish until the body starts, against plain Celery.

Closed loop, plain and gated calls in turn, so that the machine's mood hits both alike; one threads pool of the same
size for each, on the same broker.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.machine import machine
from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import TangramApp

CALLS = 300
WARM_UP = 20
SLOTS = 4


def run() -> dict[str, Any]:
    """Measure; times in ms."""
    provider = ProviderConfig(base_url="http://127.0.0.1:9", concurrency=SLOTS)
    node = ApiNodeConfig(name="hop", providers={"noop": provider}, concurrency=SLOTS)
    with Stack(StackConfig(persistent=True, api=(node,), imports=("benchmarks.hop_tasks",))) as stack:
        worker = _plain_worker(stack.broker_url)
        try:
            app = TangramApp("client", broker=stack.broker_url)
            app.remote_action("hop.gated", api="noop")
            plain, gated = _measure(app)
        finally:
            worker.terminate()
            worker.wait(20)
    added = [later - earlier for earlier, later in zip(sorted(plain), sorted(gated), strict=True)]
    p50, p95 = _quantile(gated, 0.5) - _quantile(plain, 0.5), _quantile(gated, 0.95) - _quantile(plain, 0.95)
    return {
        "name": "hop",
        "value": round(p50, 3),
        "unit": "ms added at p50",
        "reach": "p50 <= 2 ms (1.5 later), p95 <= 3 ms",
        "holds": p50 <= 2.0,
        "n": CALLS,
        "spread": {"added_p95_ms": round(p95, 3), "added_iqr_ms": _round(statistics.quantiles(added, n=4))},
        "machine": machine(),
        "detail": {
            "plain_ms": _round([_quantile(plain, q) for q in (0.5, 0.95, 0.99)]),
            "gated_ms": _round([_quantile(gated, q) for q in (0.5, 0.95, 0.99)]),
            "quantiles": [0.5, 0.95, 0.99],
            "pool": f"threads, {SLOTS}",
        },
    }


def _measure(app: TangramApp) -> tuple[list[float], list[float]]:
    plain: list[float] = []
    gated: list[float] = []
    for call in range(CALLS + WARM_UP):
        for name, into in (("hop.plain", plain), ("hop.gated", gated)):
            published = time.time()
            started = app.send_task(name).get(timeout=30, interval=0.005)
            if call >= WARM_UP:
                into.append((started - published) * 1000)
    return plain, gated


def _plain_worker(broker: str) -> subprocess.Popen[bytes]:
    arguments = ["-A", "benchmarks.hop_tasks", "worker", "-Q", "tangram.plain", "-P", "threads", "-c", str(SLOTS)]
    quiet = ["--without-mingle", "--without-gossip", "-l", "ERROR", "-n", "plain@%h"]
    return subprocess.Popen(
        [sys.executable, "-m", "celery", *arguments, *quiet], env={**os.environ, "TANGRAM_BROKER_URL": broker}
    )


def _quantile(values: list[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def _round(values: list[float]) -> list[float]:
    return [round(value, 3) for value in values]


if __name__ == "__main__":
    print(json.dumps(run()))  # noqa: T201  # its output is its purpose
