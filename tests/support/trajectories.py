"""Trajectories that are not entered."""

from __future__ import annotations

from typing import Any

from tangram_tasks import TangramApp
from tangram_tasks.trajectory import Trajectory


def trajectory(**options: Any) -> Trajectory:
    """Return one of an app whose broker is never asked."""
    return TangramApp("unasked", broker="redis://127.0.0.1:1/0").trajectory(**options)
