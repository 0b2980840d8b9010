"""SWE-ReX on the same machine and image as ours, from an environment that is thrown away afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.cpu_box import spread
from compose.image import BASE_IMAGE

VERSION = "1.4.0"
COMMANDS = 40
_PROBE = Path(__file__).with_name("swerex_probe.py")
_INSTALL_TIME, _PROBE_TIME = 300, 180  # s


def measure() -> dict[str, Any] | str:
    """Return ms of its runtimes on `true`, or why that could not be measured."""
    with tempfile.TemporaryDirectory(prefix="tangram-swerex-") as folder:
        python = Path(folder) / "bin" / "python"
        steps = (
            ([sys.executable, "-m", "venv", folder], _INSTALL_TIME),
            ([str(python), "-m", "pip", "install", "--quiet", f"swe-rex=={VERSION}", "aiohttp"], _INSTALL_TIME),
            ([str(python), "-I", str(_PROBE), BASE_IMAGE, "tangram.owner=benchmarks", str(COMMANDS)], _PROBE_TIME),
        )
        output = ""
        for command, limit in steps:
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
            except subprocess.TimeoutExpired:
                return f"not measured: {' '.join(command[1:3])} took more than {limit} s"
            if done.returncode:
                return f"not measured: {' '.join(command[1:3])} failed: {done.stderr.strip()[-300:]}"
            output = done.stdout
    rows = json.loads(output.splitlines()[-1])
    return {name: {**spread(row["ms"]), "failed": row["failed"]} for name, row in rows.items() if row["ms"]}
