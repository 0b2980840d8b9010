"""A headless Chromium that looks at a page once."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.conftest import unavailable

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def dom(url: str, settle: float = 4.0) -> str:
    """Return the page as it stands after `settle` seconds."""
    return _look(url, "--dump-dom", settle=settle)


def screenshot(url: str, file: Path, *, width: int = 1400, height: int = 800, settle: float = 4.0) -> None:
    """Write a picture of the page (PNG) as it stands after `settle` seconds."""
    _look(url, f"--screenshot={file}", f"--window-size={width},{height}", settle=settle)


def _look(url: str, *options: str, settle: float) -> str:
    binary = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if binary is None:
        unavailable("no Chromium on PATH")
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        waits = [f"--virtual-time-budget={settle * 1000:.0f}", "--timeout=20000", f"--user-data-dir={profile}"]
        run = subprocess.run(
            [binary, *quiet, *waits, *options, url], capture_output=True, text=True, timeout=90, check=True
        )
    return run.stdout
