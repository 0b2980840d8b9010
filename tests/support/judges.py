"""Actions of the tests that need no trajectory, or judge one."""

from __future__ import annotations

from tangram_tasks import Sandbox
from tangram_tasks.shared import shared_action


@shared_action(name="t.judge", cpu=1, sandbox="stateless", memory="64MiB", timeout=30)
def judge(sandbox: Sandbox, program: str) -> dict[str, object]:
    """Run a program in a sandbox of its own."""
    result = sandbox.exec(["python3", "-c", program])
    return {"stdout": result.stdout, "exit_code": result.exit_code}


@shared_action(name="t.grade", cpu=1, timeout=60)
def grade(sandbox: Sandbox, hidden: str) -> float:
    """Score the files of a sandbox with tests that it did not hold before: call it in a fork."""
    sandbox.write_file("hidden/test_hidden.py", hidden)
    result = sandbox.exec(["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "hidden"])
    return 1.0 if result.ok else 0.0
