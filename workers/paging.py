"""How a GPU node pages its services."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workers.page_out import POLICIES, PageOutPolicy

#: Part of the machine's memory that host images may take.
HOST_PART = 0.6


@dataclass(frozen=True, slots=True)
class Paging:
    """How services are paged.

    Args:
        policy: what is worth keeping on a device.
        next_uses: returns the places of services among the known future uses, 0 is next.
        overlap: calls may start while the later layers of a page-in are on their way.
        host_bytes: memory for host images; the least used ones go to disk.
    """

    policy: PageOutPolicy = POLICIES["queue_aware"]
    next_uses: Callable[[], Mapping[str, int]] = dict
    overlap: bool = False
    host_bytes: int = int(HOST_PART * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


DEFAULT = Paging()
