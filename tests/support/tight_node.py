"""A module that workers import in a test: their node then refuses grants that the scheduler's books allow.

Two units are refused whenever they are granted; one unit is refused the first time.
"""

from __future__ import annotations

from tangram_tasks.action import Qos
from workers.cpu_book import CpuBook, Share
from workers.grant_unheld import GrantUnheld

_take = CpuBook.take
_refused: list[int] = []


def _take_hardly_ever(self: CpuBook, units: int, qos: Qos = "ls") -> Share:
    if units > 1 or not _refused:
        _refused.append(units)
        raise GrantUnheld(f"{units} CPU units were granted, and this book is a test's")
    return _take(self, units, qos)


CpuBook.take = _take_hardly_ever  # type: ignore[method-assign]  # that is the point
