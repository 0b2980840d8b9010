"""The demo's own actions; workers load this module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tangram_tasks import Amdahl, Sandbox
from tangram_tasks.shared import shared_action

#: Allowed sizes, in CPU units, of a run of the suite and of a replayed command.
SIZES = (1, 2, 4)

_COUNT = re.compile(r"(\d+) (passed|failed|errors?)\b")

#: Does a command's CPU work and its idle time in turns. With less CPU than it wants, the work takes longer.
_COMMAND = """
import sys, time
seconds, cores = float(sys.argv[1]), float(sys.argv[2])
slices = max(1, min(50, round(seconds / 0.02)))
for n in range(1, slices + 1):
    while time.process_time() < seconds * cores * n / slices:
        sum(range(200))
    time.sleep(seconds * (1 - cores) / slices)
"""


@shared_action(cpu=1, timeout=60, duration=0.1)
def unpack(sandbox: Sandbox, files: Mapping[str, str]) -> int:
    """Write a project into the sandbox's work folder. Returns the number of files.

    Args:
        sandbox: given by the worker.
        files: relative path to text.
    """
    for path, text in files.items():
        sandbox.write_file(path, text)
    return len(files)


@shared_action(cpu=SIZES, elasticity=Amdahl(serial=0.05), timeout=120, duration=5.0)
def run_suite(sandbox: Sandbox, target: str) -> dict[str, Any]:
    """Run the tests at `target`. Returns passed, failed and the last 2000 characters of output.

    It starts one process per core that it may ever get: each pytest-xdist process costs about half a second of CPU
    before its first test.
    """
    parallel = ["-n", str(sandbox.max_cpus)] if sandbox.max_cpus > 1 else []
    result = sandbox.exec(["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", *parallel, target])
    return {**counts(result.stdout), "exit_code": result.exit_code, "output": (result.stdout + result.stderr)[-2000:]}


def counts(output: str) -> dict[str, int]:
    """Return passed and failed of pytest's last line; errors count as failed, and no such line as one failure."""
    found = _COUNT.findall((output.strip().splitlines() or [""])[-1])
    if not found:
        return {"passed": 0, "failed": 1}
    rows = {name: int(number) for number, name in found}
    return {"passed": rows.pop("passed", 0), "failed": sum(rows.values())}


@shared_action(cpu=SIZES, elasticity=Amdahl(serial=0.4), timeout=60, duration=2.0)
def replay(sandbox: Sandbox, seconds: float, cores: float) -> float:
    """Run a command that lasts `seconds` when it may use the `cores` (at most 1) it wants. Returns its wall seconds."""
    return sandbox.exec(["python3", "-I", "-S", "-c", _COMMAND, f"{seconds:.4f}", f"{cores:.4f}"]).duration
