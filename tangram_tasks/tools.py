"""Ready-made CPU actions: what an agent does in its sandbox.

They belong to whichever TangramApp is current, so rollout code needs no task of its own.
"""

from __future__ import annotations

import re
from typing import Any

from tangram_tasks.elasticity import Amdahl
from tangram_tasks.sandbox import ExecResult, Sandbox
from tangram_tasks.shared import shared_action


def _as_dict(result: ExecResult) -> dict[str, Any]:
    return {
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "truncated": result.truncated,
    }


@shared_action(cpu=1, timeout=300, duration=0.2)
def bash(sandbox: Sandbox, command: str, cwd: str | None = None) -> dict[str, Any]:
    """Run a bash command. Returns exit_code, stdout, stderr and truncated."""
    return _as_dict(sandbox.exec(["bash", "-c", command], cwd=cwd))


@shared_action(cpu=1, timeout=300, duration=1.0)
def python(sandbox: Sandbox, code: str, cwd: str | None = None) -> dict[str, Any]:
    """Run Python code in a fresh interpreter. Returns exit_code, stdout, stderr and truncated."""
    return _as_dict(sandbox.exec(["python3", "-"], stdin=code, cwd=cwd))


@shared_action(cpu=1, timeout=60, duration=0.04)
def read_file(sandbox: Sandbox, path: str) -> str:
    """Return a text file (UTF-8, undecodable bytes replaced). Raises FileNotFoundError."""
    return sandbox.read_file(path).decode("utf-8", "replace")


@shared_action(cpu=1, timeout=60, duration=0.04)
def write_file(sandbox: Sandbox, path: str, text: str) -> int:
    """Create or replace a text file with its folders. Returns the number of bytes written."""
    data = text.encode()
    sandbox.write_file(path, data)
    return len(data)


_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)")


@shared_action(cpu=(1, 2, 4, 8), elasticity=Amdahl(serial=0.2), timeout=600, duration=5.0)
def run_tests(sandbox: Sandbox, target: str = ".", cwd: str | None = None) -> dict[str, Any]:
    """Run a pytest suite with one pytest-xdist worker per unit it may ever get.

    Returns exit_code, the counts of pytest's last line (passed, failed, ...), and the last 4000 characters of output.
    """
    workers = ["-n", str(sandbox.max_cpus)] if sandbox.max_cpus > 1 else []
    result = sandbox.exec(["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, target], cwd=cwd)
    lines = result.stdout.strip().splitlines()
    counts = {name.rstrip("s") if name == "errors" else name: int(n) for n, name in _COUNT.findall((lines or [""])[-1])}
    return {"exit_code": result.exit_code, **counts, "output": (result.stdout + result.stderr)[-4000:]}
