"""How much a latency-sensitive action suffers from best-effort actions that keep half of the machine busy.

Rounds come in pairs, one alone and one beside the load, in changing order, so that the machine's mood hits both alike.
Each pair gives a ratio of its two p95; their median counts, and an interval for it that leaves out 5 % (order
statistics; see `benchmarks.cpu_box.median_interval`). The claim holds if the median does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from statistics import median
from typing import Any

from benchmarks.cpu_box import action, median_interval, quantile, result, spread, warm_node
from tangram_tasks.errors import ActionCancelled
from workers.cpu_node import CpuNode

ROUNDS = 20
ACTIONS = 20  # per round
REACH = 0.20
#: A tool call of some milliseconds.
WORK = ["python3", "-c", "sum(range(200_000))"]
SPIN = ["python3", "-c", "while True: pass"]


def run() -> dict[str, Any]:
    """Measure; milliseconds."""
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    with warm_node("sensitive", "background") as node:
        load = node.capacity["cpu"] // 2
        if not load:
            raise RuntimeError("this machine has one core: there is no half of it")
        _round(node)
        for number in range(ROUNDS):
            for loaded in (number % 2 == 0, number % 2 == 1):
                with _best_effort(node, load) if loaded else nullcontext():
                    (beside if loaded else alone).append(_round(node))
        backend = node.backend_name
    ratios = [quantile(one[1], 0.95) / quantile(one[0], 0.95) - 1 for one in zip(alone, beside, strict=True)]
    value = median(ratios)
    low, high = median_interval(ratios)
    return result(
        "qos",
        round(100 * value, 1),
        "% longer at p95",
        reach=f"<= {100 * REACH:g} %",
        holds=value <= REACH,
        n=ROUNDS * ACTIONS,
        spread={"pairs": ROUNDS, "low": round(100 * low, 1), "high": round(100 * high, 1)},
        detail={
            "backend": backend,
            "alone_ms": spread([*chain(*alone)]),
            "beside_ms": spread([*chain(*beside)]),
            "load_cores": load,
        },
    )


def _round(node: CpuNode) -> list[float]:
    took = []
    for _ in range(ACTIONS):
        began = time.perf_counter()
        with action(node, "sensitive", trajectory="sensitive", qos="ls") as lease:
            lease.exec(WORK)
        took.append(1e3 * (time.perf_counter() - began))
    return took


@contextmanager
def _best_effort(node: CpuNode, units: int) -> Iterator[None]:
    """Keep so many cores busy with best-effort actions of one core each."""
    threads = [threading.Thread(target=_spin, args=(node, f"background-{number}")) for number in range(units)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(0.3)
        yield
    finally:
        for number in range(units):
            node.cancel(f"background-{number}")
        for thread in threads:
            thread.join()


def _spin(node: CpuNode, name: str) -> None:
    with action(node, name, trajectory="background", qos="be") as lease:
        try:
            lease.exec(SPIN)
        except ActionCancelled:
            return
