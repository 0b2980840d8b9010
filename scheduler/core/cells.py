"""Cells: the aligned runs of devices that an action of a size can get."""

from __future__ import annotations

from collections.abc import Iterator


def cells(devices: int, units: int) -> Iterator[range]:
    """Yield every run of `units` devices that starts at a multiple of the next power of two (links join such runs)."""
    width = 1 << (units - 1).bit_length()
    for start in range(0, devices - units + 1, width):
        yield range(start, start + units)
