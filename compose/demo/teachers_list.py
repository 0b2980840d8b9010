"""The names of the demo's teachers, to be known without torch."""

from __future__ import annotations

#: Hidden size of each; its weights take 13 MiB (256) to 81 MiB (640).
WIDTHS = (256, 320, 320, 384, 384, 448, 512, 512, 640)
NAMES = tuple(f"teacher-{number + 1}" for number in range(len(WIDTHS)))
#: How a node's options name them.
SERVICES = tuple(f"{name}=compose.demo.teachers:{name.replace('-', '_')}" for name in NAMES)
