"""Running commands."""

from __future__ import annotations

from typing import Any

from tangram_tasks.sandbox import ExecResult, Sandbox
from tangram_tasks.shared import shared_action


@shared_action(name="tangram_tasks.tools.bash", cpu=1, timeout=300, duration=0.2)
def bash(sandbox: Sandbox, command: str, cwd: str | None = None, session: str = "main") -> dict[str, Any]:
    """Run a bash command in a session that keeps its folder, variables and functions for the next command.

    Args:
        sandbox: given by the worker.
        command: the script.
        cwd: run just this command there, instead of where the session is.
        session: commands of one session run one after another; those of different ones side by side.

    Returns:
        exit_code, stdout, stderr, truncated; cwd, where the session is now; restarted, if the session's shell ended
        and its variables are gone.
    """
    result = sandbox.bash(command, session=session, cwd=cwd)
    return {**_as_dict(result), "cwd": result.cwd, "restarted": result.restarted}


@shared_action(name="tangram_tasks.tools.python", cpu=1, timeout=300, duration=1.0)
def python(sandbox: Sandbox, code: str, cwd: str | None = None) -> dict[str, Any]:
    """Run Python code in a fresh interpreter. Returns exit_code, stdout, stderr and truncated."""
    return _as_dict(sandbox.exec(["python3", "-"], stdin=code, cwd=cwd))


def _as_dict(result: ExecResult) -> dict[str, Any]:
    return {
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "truncated": result.truncated,
    }
