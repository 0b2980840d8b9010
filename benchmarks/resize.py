"""What it takes to grow a running action's sandbox by a core and to shrink it again.

`docker update`, the way through the engine, is measured beside it on the same container.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.cpu_box import action, quantile, result, spread, warm_node
from workers.cpu_node import CpuNode
from workers.docker_engine import connect
from workers.docker_sandbox import LEASE
from workers.sandbox_lease import SandboxLease

PAIRS = 1000
UPDATES = 20
REACH_MS = 0.2


def run() -> dict[str, Any]:
    """Measure; milliseconds for a pair of changes."""
    with warm_node() as node, action(node, "grows") as lease:
        if node.capacity["cpu"] < 2:
            raise RuntimeError("this machine has one core: nothing can grow")
        ours = [_pair(node) for _ in range(PAIRS)]
        engine = _through_the_engine(lease) if node.backend_name == "docker" else []
        backend, resizes = node.backend_name, node.stats()["resizes"]
    value = quantile(ours, 0.5)
    return result(
        "resize",
        round(value, 4),
        "ms for grow and shrink",
        reach=f"p50 <= {REACH_MS:g} ms",
        holds=value <= REACH_MS,
        n=PAIRS,
        spread=spread(ours, 4),
        detail={
            "backend": backend,
            "resizes": resizes,
            "docker_update_pair_ms": spread(engine) if engine else "the sandbox is no container",
        },
    )


def _pair(node: CpuNode) -> float:
    began = time.perf_counter()
    done = node.resize("grows", 2) and node.resize("grows", 1)
    took = 1e3 * (time.perf_counter() - began)
    if not done:
        raise RuntimeError("the action was not resized")
    return took


def _through_the_engine(lease: SandboxLease) -> list[float]:
    engine = connect()
    try:
        (container,) = engine.containers.list(filters={"label": f"{LEASE}={lease.sandbox.lease}"})
        pairs = []
        for _ in range(UPDATES):
            began = time.perf_counter()
            for quota in (200_000, 100_000):
                container.update(cpu_period=100_000, cpu_quota=quota)
            pairs.append(1e3 * (time.perf_counter() - began))
        return pairs
    finally:
        engine.close()
