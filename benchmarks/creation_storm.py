"""What the making of many sandboxes does to actions that run beside it, and how fast sandboxes are to be had.

Short actions (`true`) run one after another in a sandbox that is up, first alone, then while a storm of sandboxes is
made on the same node. The claim is on the 95th percentile of the time from grant to release.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import click

from benchmarks.machine import machine
from compose.image import BASE_IMAGE, build_base_image
from tangram_tasks.control_messages import OpenTrajectory
from workers.cpu_node import CpuNode
from workers.sandbox_policy import SandboxPolicy

STORM = 20
ALONE_S = 10.0
PAUSE_S = 0.02  # between two actions
MEMORY = 64
WARM = 4
REACH = 2.0


def run() -> dict[str, Any]:
    """Measure it; milliseconds."""
    with tempfile.TemporaryDirectory(prefix="tangram-bench-") as folder:
        build_base_image()
        policy = SandboxPolicy(warm={BASE_IMAGE: WARM}, warm_memory_mib=2 * MEMORY)
        node = CpuNode(node=Path(folder).name, owner="benchmarks", state_dir=Path(folder), policy=policy)
        try:
            return _measure(node)
        finally:
            node.stop()


def _measure(node: CpuNode) -> dict[str, Any]:
    while node.stats()["warm_ready"] < WARM:
        time.sleep(0.1)
    claims = [_open(node, f"claim-{number}", 2 * MEMORY) for number in range(WARM)]
    while node.stats()["warm_ready"] < WARM:
        time.sleep(0.1)
    _open(node, "old", MEMORY)
    end = time.monotonic() + ALONE_S
    alone = _actions(node, lambda: time.monotonic() < end)
    began = time.perf_counter()
    with ThreadPoolExecutor(STORM) as pool:
        storm = [pool.submit(_open, node, f"storm-{number}", MEMORY) for number in range(STORM)]
        beside = _actions(node, lambda: bool(wait(storm, timeout=0).not_done))
    rate_beside = STORM / (time.perf_counter() - began)
    began = time.perf_counter()
    with ThreadPoolExecutor(STORM) as pool:
        list(pool.map(lambda number: _open(node, f"idle-{number}", MEMORY), range(STORM)))
    rate_idle = STORM / (time.perf_counter() - began)
    value = _quantile(beside, 0.95) / _quantile(alone, 0.95)
    return {
        "name": "creation_storm",
        "value": round(value, 2),
        "unit": "x",
        "reach": f"p95 beside a storm <= {REACH:g} x p95 alone",
        "holds": value <= REACH,
        "n": len(beside),
        "spread": {"p50": round(_quantile(beside, 0.5) / _quantile(alone, 0.5), 2)},
        "machine": machine(),
        "detail": {
            "backend": node.backend_name,
            "alone_ms": _spread(alone),
            "beside_ms": _spread(beside),
            "created_per_s_beside_actions": round(rate_beside, 2),
            "created_per_s_idle_node": round(rate_idle, 2),
            "warm_claim_ms": _spread(claims),
        },
    }


def _open(node: CpuNode, trajectory: str, memory: int) -> float:
    began = time.perf_counter()
    node.open(OpenTrajectory(trajectory=trajectory, image=BASE_IMAGE, memory=memory, expires_at=time.time() + 3600))
    return 1e3 * (time.perf_counter() - began)


def _actions(node: CpuNode, go_on: Callable[[], bool]) -> list[float]:
    durations = []
    while go_on():
        began = time.perf_counter()
        deadline = time.monotonic() + 60
        with node.lease(trajectory="old", action="a", units=1, max_units=1, deadline=deadline) as lease:
            lease.exec(["true"])
        durations.append(1e3 * (time.perf_counter() - began))
        time.sleep(PAUSE_S)
    return durations


def _spread(values: list[float]) -> dict[str, float]:
    return {name: round(_quantile(values, q), 2) for name, q in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))}


def _quantile(values: list[float], q: float) -> float:
    return sorted(values)[round(q * (len(values) - 1))]


if __name__ == "__main__":
    click.echo(json.dumps(run(), indent=2))
