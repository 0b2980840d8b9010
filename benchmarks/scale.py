"""The scheduler core with 100,000 waiting actions: memory of the process and CPU time per event, policy "live"."""

from __future__ import annotations

import gc
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

from benchmarks.core_load import action, deployment, quantile
from benchmarks.machine import machine
from scheduler.core.events import Decision, Grant, Released, Resize, Resized, Submitted

WAITING, NODES, TRAJECTORIES, ROUNDS = 100_000, 15, 1536, 3_000


def run() -> dict[str, Any]:
    """Let 100,000 wait, then let actions end and new ones arrive."""
    random = Random(0)
    core = deployment("live", NODES, TRAJECTORIES)
    running: list[str] = []
    acks: list[Resize] = []
    times: list[float] = []

    def feed(event: Submitted | Released | Resized) -> None:
        begin = thread_time()
        decisions = core.handle(event)
        times.append((thread_time() - begin) * 1000)
        _carry_out(decisions)

    def _carry_out(decisions: list[Decision]) -> None:
        running.extend(decision.action for decision in decisions if isinstance(decision, Grant))
        acks.extend(decision for decision in decisions if isinstance(decision, Resize))

    def arrive(seq: int, at: int) -> Submitted:
        return Submitted(at, action(random, seq, at, random.randrange(TRAJECTORIES)))

    _carry_out(core.handle_all(arrive(seq, 0) for seq in range(WAITING)))
    gc.collect()
    gc.freeze()
    for turn in range(ROUNDS):
        at = turn * 10
        while acks:
            order = acks.pop()
            feed(Resized(at, order.action, order.units))
        feed(Released(at, running.pop(random.randrange(len(running)))))
        feed(arrive(WAITING + turn, at))
    gc.unfreeze()
    memory, p99 = _resident_mib(), quantile(times, 0.99)
    return {
        "name": "scale",
        "value": round(p99, 3),
        "unit": "CPU ms per event, p99",
        "reach": "p99 < 10 ms, resident memory < 400 MB",
        "holds": p99 < 10 and memory < 400e6 / 2**20,
        "n": len(times),
        "spread": {"p50": round(quantile(times, 0.5), 4), "max": round(max(times), 3)},
        "machine": machine(),
        "detail": {"waiting": len(core.waiting()), "resident_mib": round(memory, 1)},
    }


def _resident_mib() -> float:
    rows = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmRSS")) / 1024
