"""A hundred live sandboxes: what one costs in memory, how fast they are made, and what an action in any one costs.

They are made cold, four at once; then as many as the warm pool holds are claimed from it, one after another.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.cpu_box import open_sandbox, quantile, result, spread, timed_true, warm_node
from compose.image import BASE_IMAGE
from workers.cpu_node import CpuNode
from workers.creation_gate import CREATORS

SANDBOXES = 100
ACTIONS = 300
REACH_MS = 15.0
WARM, WARM_MIB = 10, 64
_FULL_TIME = 120.0  # s that the warm pool gets to fill


def run() -> dict[str, Any]:
    """Measure; milliseconds, MiB."""
    names = [f"t-{number}" for number in range(SANDBOXES)]
    choose = random.Random(0)
    with warm_node("first") as node:
        before = _pss()
        alone = [timed_true(node, "first")[0] for _ in range(ACTIONS // 3)]
        began = time.perf_counter()
        with ThreadPoolExecutor(CREATORS) as pool:
            list(pool.map(lambda name: open_sandbox(node, name), names))
        took = time.perf_counter() - began
        grown = _pss() - before
        overhead = [timed_true(node, choose.choice(names))[0] for _ in range(ACTIONS)]
        backend = node.backend_name
        claimed, refill_s = _warm(node)
        began = time.perf_counter()
        _close(node, names)
        removed = time.perf_counter() - began
    value = quantile(overhead, 0.5)
    return result(
        "sandboxes",
        round(value, 2),
        f"ms per action in a random one of {SANDBOXES}",
        reach=f"p50 <= {REACH_MS:g} ms",
        holds=value <= REACH_MS,
        n=ACTIONS,
        spread=spread(overhead),
        detail={
            "backend": backend,
            "one_sandbox_ms": spread(alone),
            "memory_mib_each": round(grown / SANDBOXES, 2),
            "created_per_s_cold": round(SANDBOXES / took, 2),
            "claimed_per_s_warm": round(1e3 * WARM / sum(claimed), 1),
            "warm_claim_ms": spread(claimed),
            "warm_refill_per_s": round(WARM / refill_s, 2),
            "removed_per_s": round(SANDBOXES / removed, 2),
        },
    )


def _warm(node: CpuNode) -> tuple[list[float], float]:
    """Return ms of each claim from a full warm pool, and s in which the pool fills."""
    began = time.perf_counter()
    node.keep_warm(BASE_IMAGE, WARM_MIB, WARM)
    while node.stats()["warm_ready"] < WARM:
        if time.perf_counter() - began > _FULL_TIME:
            raise RuntimeError(f"the warm pool did not fill in {_FULL_TIME:g} s")
        time.sleep(0.02)
    filled = time.perf_counter() - began
    claimed = []
    for number in range(WARM):
        began = time.perf_counter()
        open_sandbox(node, f"warm-{number}", WARM_MIB)
        claimed.append(1e3 * (time.perf_counter() - began))
    node.keep_warm(BASE_IMAGE, WARM_MIB, 0)
    return claimed, filled


def _close(node: CpuNode, names: list[str]) -> None:
    with ThreadPoolExecutor(CREATORS) as pool:
        list(pool.map(node.close, names))


def _pss() -> float:
    """Return the MiB of all agents and container shims, shared pages counted once in all."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if b"tangram-agent" in command or b"containerd-shim" in command:
                lines = (folder / "smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, StopIteration):  # it ended meanwhile
            continue
    return total / 1024
