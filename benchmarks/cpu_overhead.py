"""What one CPU action costs beside its command: grant received -> started, ended -> released, in a warm sandbox.

The command is `true`, so everything but its own fork and exec is overhead. A plain `subprocess.run` of `true` on the
host is interleaved, to tell how much of the figure is the machine's; `docker exec` into the same container and, with
`--swerex`, SWE-ReX's runtimes follow. The paper reports 24 ms.
"""

from __future__ import annotations

import subprocess
import time
from typing import Any

from benchmarks import swerex
from benchmarks.cpu_box import action, quantile, result, spread, timed_true, warm_node
from workers.cpu_node import CpuNode
from workers.docker_engine import connect
from workers.docker_sandbox import LEASE

ACTIONS = 300
WARM_UP = 10
EXECS = 30
REACH_P50, REACH_P99 = 5.0, 15.0


def run(*, with_swerex: bool = False) -> dict[str, Any]:
    """Measure it; milliseconds."""
    overhead, resize, plain = [], [], []
    with warm_node() as node:
        for _ in range(WARM_UP):
            timed_true(node)
        for _ in range(ACTIONS):
            whole, sizing = timed_true(node)
            overhead.append(whole)
            resize.append(sizing)
            plain.append(_plain())
        engine = _docker_exec(node) if node.backend_name == "docker" else "not measured: the sandbox is no container"
        backend = node.backend_name
    p50, p99 = quantile(overhead, 0.5), quantile(overhead, 0.99)
    return result(
        "cpu_overhead",
        round(p50, 2),
        "ms",
        reach=f"p50 <= {REACH_P50:g} ms, p99 <= {REACH_P99:g} ms",
        holds=p50 <= REACH_P50 and p99 <= REACH_P99,
        n=ACTIONS,
        spread=spread(overhead),
        detail={
            "backend": backend,
            "resize_ms": spread(resize),
            "resize_share": round(sum(resize) / sum(overhead), 3),
            "plain_subprocess_ms": spread(plain),
            "above_plain_ms": round(p50 - quantile(plain, 0.5), 2),
            "docker_exec_ms": engine,
            "swerex_ms": swerex.measure() if with_swerex else "not measured: ask with --swerex, it installs SWE-ReX",
        },
    )


def _plain() -> float:
    began = time.perf_counter()
    subprocess.run(["true"], check=True)
    return 1e3 * (time.perf_counter() - began)


def _docker_exec(node: CpuNode) -> dict[str, float]:
    engine = connect()
    try:
        with action(node) as lease:
            (container,) = engine.containers.list(filters={"label": f"{LEASE}={lease.sandbox.lease}"})
            took = []
            for _ in range(EXECS):
                began = time.perf_counter()
                container.exec_run(["true"])
                took.append(1e3 * (time.perf_counter() - began))
            return spread(took)
    finally:
        engine.close()
