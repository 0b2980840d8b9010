"""The commands of `tangram`, one file each. Heavy imports stand inside them, so that `--help` is fast."""

from __future__ import annotations
