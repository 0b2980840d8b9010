"""How much memory of a device is free, as the driver sees it: it counts what other processes hold."""

from __future__ import annotations

from workers.devices import probe


def free_bytes(device: str) -> int | None:
    """Return a device's free bytes by its id; None if the driver does not tell, or it is emulated."""
    return next((found.free_bytes for found in probe().devices if found.id == device), None)
