"""What one CPU action costs beside its command: grant received -> started, ended -> released, in a warm sandbox.

The command is `true`, so everything but its own fork and exec is overhead. A plain `subprocess.run` of `true` on the
host is interleaved, to tell how much of the figure is the machine's. The paper reports 24 ms.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from benchmarks.machine import machine
from compose.image import BASE_IMAGE, build_base_image
from tangram_tasks.wire import OpenTrajectory
from workers.cpu_node import CpuNode

ACTIONS = 200
WARM_UP = 10
REACH_MS = 8.0
TRAJECTORY = "benchmark"


def run() -> dict[str, Any]:
    """Measure it; milliseconds."""
    overhead, resize, plain = [], [], []
    with _warm_sandbox() as node:
        for _ in range(WARM_UP):
            _action(node)
        for number in range(ACTIONS):
            began = time.perf_counter()
            resize.append(1e3 * _action(node, f"a-{number}"))
            overhead.append(1e3 * (time.perf_counter() - began))
            began = time.perf_counter()
            subprocess.run(["true"], check=True)
            plain.append(1e3 * (time.perf_counter() - began))
        backend = node.backend_name
    value = _quantile(overhead, 0.5)
    return {
        "name": "cpu_overhead",
        "value": round(value, 2),
        "unit": "ms",
        "reach": f"p50 <= {REACH_MS:g} ms (5 later)",
        "holds": value <= REACH_MS,
        "n": ACTIONS,
        "spread": _spread(overhead),
        "machine": machine(),
        "detail": {
            "backend": backend,
            "resize_ms": _spread(resize),
            "resize_share": round(sum(resize) / sum(overhead), 3),
            "plain_subprocess_ms": _spread(plain),
            "above_plain_ms": round(value - _quantile(plain, 0.5), 2),
        },
    }


@contextmanager
def _warm_sandbox() -> Iterator[CpuNode]:
    with tempfile.TemporaryDirectory(prefix="tangram-bench-") as folder:
        node = CpuNode(node=Path(folder).name, owner="benchmarks", state_dir=Path(folder))
        try:
            if node.backend_name == "docker":
                build_base_image()
            node.open(OpenTrajectory(trajectory=TRAJECTORY, image=BASE_IMAGE, memory=256, expires_at=0))
            yield node
        finally:
            node.stop()


def _action(node: CpuNode, action: str = "warm-up") -> float:
    """Run one action; return the seconds spent on sizing its sandbox."""
    deadline = time.monotonic() + 60
    with node.lease(trajectory=TRAJECTORY, action=action, units=1, max_units=1, deadline=deadline) as lease:
        if not lease.exec(["true"]).ok:
            raise RuntimeError("`true` failed in the sandbox")
    return lease.usage.resize_s


def _spread(values: list[float]) -> dict[str, float]:
    return {name: round(_quantile(values, q), 3) for name, q in (("min", 0), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}


def _quantile(values: list[float], q: float) -> float:
    return sorted(values)[round(q * (len(values) - 1))]


if __name__ == "__main__":
    click.echo(json.dumps(run(), indent=2))
