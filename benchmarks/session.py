"""What a command in a bash session costs that is up already, next to the same command in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.cpu_box import action, quantile, result, spread, warm_node
from tangram_tasks.sandbox import ExecResult
from workers.sandbox_lease import SandboxLease

COMMANDS = 500
WARM_UP = 20
REACH_MS = 2.0


def run() -> dict[str, Any]:
    """Measure within one action, so that its grant is not in it; milliseconds."""
    with warm_node() as node, action(node) as lease:
        ways: dict[str, Callable[[SandboxLease], ExecResult]] = {
            "session_true": lambda lease: lease.bash("true"),
            "session_program": lambda lease: lease.bash("/bin/true"),
            "exec_program": lambda lease: lease.exec(["true"]),
            "exec_bash": lambda lease: lease.exec(["bash", "-c", "true"]),
        }
        took: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(WARM_UP + COMMANDS):  # in turns, so that the machine's mood hits all alike
            for name, way in ways.items():
                began = time.perf_counter()
                if not way(lease).ok:
                    raise RuntimeError(f"{name} failed")
                if number >= WARM_UP:
                    took[name].append(1e3 * (time.perf_counter() - began))
        backend = node.backend_name
    value = quantile(took["session_true"], 0.5)
    return result(
        "session",
        round(value, 2),
        "ms per command of a session",
        reach=f"p50 <= {REACH_MS:g} ms",
        holds=value <= REACH_MS,
        n=COMMANDS,
        spread=spread(took["session_true"]),
        detail={"backend": backend, **{f"{name}_ms": spread(rows) for name, rows in took.items()}},
    )
