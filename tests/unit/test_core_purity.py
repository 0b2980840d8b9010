"""The core loads nothing that does I/O."""

from __future__ import annotations

import json
import subprocess
import sys

IMPURE = {"celery", "kombu", "redis", "docker", "torch", "pynvml", "asyncio", "pydantic", "socket", "subprocess"}

SCRIPT = """
import importlib, json, pkgutil, sys
import scheduler.core
names = [row.name for row in pkgutil.iter_modules(scheduler.core.__path__)]
for name in names:
    importlib.import_module(f"scheduler.core.{name}")
print(json.dumps([names, sorted({name.split(".")[0] for name in sys.modules})]))
"""


def test_the_core_is_pure() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    names, loaded = json.loads(run.stdout)
    assert {"admission", "paper", "events"} <= set(names)
    assert not IMPURE & set(loaded)
