"""Whether an action gets the cores it asked for, from its first millisecond.

Some processes each burn some milliseconds of CPU time; the wall time says how many cores they had. A limit by quota
alone lets them use every core of the machine until the first period's budget is spent, which steals from others and
makes the measured speed-up of more cores wrong. Ours pins as many cores as were granted. Neighbours of the benchmark
can only make a round longer, so the claim is about the shortest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.cpu_box import action, quantile, result, warm_node
from workers.cgroups import Cgroup
from workers.sandbox_lease import SandboxLease

#: Processes, and the CPU time of each in ms.
PATTERNS = ((1, 30), (2, 30), (2, 80), (4, 50))
REPEATS = 20
#: The pattern in which quota alone differs most, and how many cores one core may look like there.
TELLING, REACH = (2, 30), 1.1

BURN = """
import json, os, sys, time
count, burn, repeats = map(int, sys.argv[1:])
walls = []
for _ in range(repeats):
    time.sleep(0.21)  # two periods: nothing is owed from the last round
    ready, go = os.pipe(), os.pipe()
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os.write(ready[1], b".")
            os.read(go[0], 1)
            end = time.process_time() + burn / 1000
            while time.process_time() < end: pass
            os._exit(0)
        children.append(child)
    for _ in children: os.read(ready[0], 1)
    began = time.perf_counter()
    os.write(go[1], b"." * count)
    for child in children: os.waitpid(child, 0)
    walls.append(1000 * (time.perf_counter() - began))
    for end in (*ready, *go): os.close(end)
print(json.dumps(walls))
"""


def run() -> dict[str, Any]:
    """Measure; wall milliseconds by setting and pattern."""
    with warm_node() as node:
        if node.capacity["cpu"] < 2:
            raise RuntimeError("this machine has one core: every setting is the same")
        table = {}
        for units in (1, 2):
            with action(node, units=units) as lease:
                table[f"ours, {units} of 2 cores"] = _row(lease)
        with action(node, units=2) as lease:
            lease.sandbox.control.give(1.0, ())  # on both cores, with the time of one
            table["quota of 1 core alone"] = _row(lease)
        backend = node.backend_name
    column = f"{TELLING[0]}x{TELLING[1]} ms"
    work = TELLING[0] * TELLING[1]
    cores = {setting: round(work / row[column]["min"], 2) for setting, row in table.items()}
    value = cores["ours, 1 of 2 cores"]
    return result(
        "fidelity",
        value,
        f"cores used by an action of 1 core ({column})",
        reach=f"{2 - REACH:g} to {REACH:g}",
        holds=2 - REACH <= value <= REACH,
        n=REPEATS,
        spread=cores,
        detail={"backend": backend, "wall_ms": table},
    )


def _row(lease: SandboxLease) -> dict[str, dict[str, float]]:
    before = _throttled(lease)
    row = {}
    for count, burn in PATTERNS:
        done = lease.exec(["python3", "-c", BURN, str(count), str(burn), str(REPEATS)])
        walls = json.loads(done.stdout)
        row[f"{count}x{burn} ms"] = {
            "min": round(min(walls), 1),
            "p50": round(quantile(walls, 0.5), 1),
            "max": round(max(walls), 1),
        }
    return {**row, "periods": {"throttled": _throttled(lease) - before}}


def _throttled(lease: SandboxLease) -> int:
    control = lease.sandbox.control
    if not isinstance(control, Cgroup):
        return 0
    lines = Path(control.folders["cpu"] / "cpu.stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("nr_throttled "))
