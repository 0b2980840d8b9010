"""A CPU node of this machine for benchmarks, and the words in which they tell their figures."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from math import comb
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from compose.image import BASE_IMAGE, build_base_image
from tangram_tasks.action import Qos
from tangram_tasks.control_messages import OpenTrajectory
from workers.cpu_node import CpuNode
from workers.sandbox_lease import SandboxLease
from workers.sandbox_policy import DEFAULT_POLICY, SandboxPolicy

TRAJECTORY = "benchmark"
MEMORY_MIB = 128


@contextmanager
def warm_node(*trajectories: str, policy: SandboxPolicy = DEFAULT_POLICY) -> Iterator[CpuNode]:
    """Yield a node on which these trajectories (by default one) have a sandbox."""
    with tempfile.TemporaryDirectory(prefix="tangram-bench-") as folder:
        node = CpuNode(node=Path(folder).name, owner="benchmarks", state_dir=Path(folder), policy=policy)
        try:
            if node.backend_name == "docker":
                build_base_image()
            for trajectory in trajectories or (TRAJECTORY,):
                open_sandbox(node, trajectory)
            yield node
        finally:
            node.stop()


def open_sandbox(node: CpuNode, trajectory: str, memory: int = MEMORY_MIB) -> None:
    """Make a sandbox and wait until it is ready."""
    node.open(OpenTrajectory(trajectory=trajectory, image=BASE_IMAGE, memory=memory, expires_at=time.time() + 3600))


def action(
    node: CpuNode, name: str = "a", *, trajectory: str = TRAJECTORY, units: int = 1, qos: Qos = "ls"
) -> AbstractContextManager[SandboxLease]:
    """Return what an action holds for the length of a block."""
    return node.lease(
        trajectory=trajectory,
        action=name,
        units=units,
        max_units=node.capacity["cpu"],
        deadline=time.monotonic() + 120,
        qos=qos,
    )


def timed_true(node: CpuNode, trajectory: str = TRAJECTORY) -> tuple[float, float]:
    """Run one action whose command is `true`; return ms of the whole, and those spent on sizing its sandbox."""
    began = time.perf_counter()
    with action(node, trajectory=trajectory) as lease:
        if not lease.exec(["true"]).ok:
            raise RuntimeError("`true` failed in the sandbox")
    return 1e3 * (time.perf_counter() - began), 1e3 * lease.usage.resize_s


def quantile(values: list[float], q: float) -> float:
    """Return the nearest of the values."""
    return sorted(values)[round(q * (len(values) - 1))]


def median_interval(values: list[float]) -> tuple[float, float]:
    """Return the two of the values between which the median lies in 95 of 100 samples, whatever their distribution.

    Of n values, those of rank k and n + 1 - k, with the largest k for which a fair coin shows fewer than k heads in n
    throws at most 2.5 times in 100 (Conover, Practical Nonparametric Statistics, the binomial interval of a quantile).
    """
    n, rank, tail = len(values), 0, 0.0
    while tail + comb(n, rank) / 2**n <= 0.025:
        tail += comb(n, rank) / 2**n
        rank += 1
    ordered = sorted(values)
    return ordered[max(0, rank - 1)], ordered[min(n - 1, n - rank)]


def spread(values: list[float], digits: int = 3) -> dict[str, float]:
    """Return least, p50, p90 and p99."""
    wanted = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {name: round(quantile(values, q), digits) for name, q in wanted.items()}


def result(name: str, value: float, unit: str, *, reach: str, holds: bool, n: int, **rest: Any) -> dict[str, Any]:
    """Return what `python -m benchmarks` prints; `rest` is `spread` and `detail`."""
    rows = {"name": name, "value": value, "unit": unit, "reach": reach, "holds": holds, "n": n, "machine": machine()}
    return {"spread": {}, "detail": {}, **rows, **rest}
