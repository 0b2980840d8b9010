"""`tangram --help` stays fast because it loads none of the heavy packages."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {"celery", "kombu", "redis", "docker", "torch", "pydantic", "rich", "asyncio"}


def test_the_command_line_loads_nothing_heavy() -> None:
    script = "import sys, json, compose.cli; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not HEAVY & set(json.loads(run.stdout))
