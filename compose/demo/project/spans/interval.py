"""Half-open intervals of whole numbers, and sets of them as sorted lists."""

from typing import Iterable, List, NamedTuple


class Interval(NamedTuple):
    """All t with start <= t < end."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return max(0, self.end - self.start)

    def contains(self, t: int) -> bool:
        return self.start <= t < self.end

    def overlaps(self, other: "Interval") -> bool:
        return self.start < other.end and other.start < self.end

    def shifted(self, by: int) -> "Interval":
        return Interval(self.start + by, self.end + by)


def merge(intervals: Iterable[Interval]) -> List[Interval]:
    """Return the same set as disjoint intervals in ascending order; touching ones become one."""
    merged: List[Interval] = []
    for current in sorted(i for i in intervals if i.length):
        if merged and current.start <= merged[-1].end:
            merged[-1] = Interval(merged[-1].start, current.end)
        else:
            merged.append(current)
    return merged


def intersect(left: Iterable[Interval], right: Iterable[Interval]) -> List[Interval]:
    """Return what both sets have in common."""
    a, b = merge(left), merge(right)
    common: List[Interval] = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i].start, b[j].start), min(a[i].end, b[j].end)
        if start < end:
            common.append(Interval(start, end))
        if a[i].end < b[j].end:
            i += 1
        else:
            j += 1
    return common


def subtract(left: Iterable[Interval], right: Iterable[Interval]) -> List[Interval]:
    """Return the part of `left` that is not in `right`."""
    rest: List[Interval] = []
    holes = merge(right)
    for whole in merge(left):
        start = whole.start
        for hole in holes:
            if hole.end <= start or hole.start >= whole.end:
                continue
            if hole.start > start:
                rest.append(Interval(start, hole.start))
            start = max(start, hole.end)
        if start < whole.end:
            rest.append(Interval(start, whole.end))
    return rest


def gaps(intervals: Iterable[Interval], within: Interval) -> List[Interval]:
    """Return the free intervals inside `within`."""
    return subtract([within], intervals)
