"""Running a test suite."""

from __future__ import annotations

import uuid
from typing import Any

from tangram_tasks.elasticity import Amdahl
from tangram_tasks.sandbox import ExecResult, Sandbox
from tangram_tasks.shared import shared_action
from tangram_tasks.tools.junit import MOST_BYTES, parse_junit

_OUTPUT = 4000  # characters
_USAGE_ERROR = 4  # pytest's exit code


@shared_action(
    name="tangram_tasks.tools.run_tests", cpu=(1, 2, 4, 8), elasticity=Amdahl(serial=0.2), timeout=600, duration=5.0
)
def run_tests(sandbox: Sandbox, target: str = ".", cwd: str | None = None) -> dict[str, Any]:
    """Run a pytest suite with one pytest-xdist worker per unit it may ever get; with one process if that is missing.

    Args:
        sandbox: given by the worker.
        target: what to run: a folder, a file, or one test.
        cwd: where to run it.

    Returns:
        exit_code; passed, failed, errors, skipped, xfailed; duration, seconds; tests, each with id, outcome, duration
        and (unless it passed) message; problem, why there is no report of single tests, or None; output, the last
        4000 characters. A suite that cannot be collected has errors, and maybe no tests.
    """
    path = f"/tmp/tangram-junit-{uuid.uuid4().hex}.xml"
    try:
        result = _pytest(sandbox, target, cwd, path)
        outcome = parse_junit(_report(sandbox, path))
    finally:
        sandbox.exec(["rm", "-f", "--", path])
    return {"exit_code": result.exit_code, **outcome, "output": (result.stdout + result.stderr)[-_OUTPUT:]}


def _pytest(sandbox: Sandbox, target: str, cwd: str | None, path: str) -> ExecResult:
    # The family that names each test's file.
    report = ["-o", "junit_family=xunit1", f"--junit-xml={path}"]
    command = ["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", *report]
    if sandbox.max_cpus > 1:
        result = sandbox.exec([*command, "-n", str(sandbox.max_cpus), target], cwd=cwd)
        if result.exit_code != _USAGE_ERROR or "unrecognized arguments: -n" not in result.stderr:
            return result
    return sandbox.exec([*command, target], cwd=cwd)


def _report(sandbox: Sandbox, path: str) -> bytes:
    try:
        return sandbox.read_file(path, length=MOST_BYTES + 1)
    except FileNotFoundError:
        return b""
