"""Learned durations: what each kind of action really takes at each size.

A kind is a task and a *bucket*, a key that its user may give (the repository, say). What is declared is a prior that
counts as `PRIOR` observations; the arithmetic mean of what is observed takes over. The mean, not the median: sums of
durations decide, and these have heavy tails. A wrong hint heals in three steps of trust: the scale of the whole curve
is learned from all sizes together, then each size from its own observations, and a bucket starts from its task.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: Observations that a prior is worth.
PRIOR = 3.0
#: Observations that the declared shape of the curve is worth at each size: actions differ more than curves do.
SHAPE = 16.0
#: When a kind has so many observations, they count half from then on, so that it follows what changes.
MEMORY = 10_000.0
#: Kinds that are remembered; the one that was used longest ago is forgotten.
KINDS = 4_096

#: A task and a bucket; the bucket "" is the task as a whole.
Kind = tuple[str, str]
#: One kind as JSON can carry it: units, then [observations, summed ms].
Row = dict[str, list[float]]


@dataclass(slots=True)
class _Sums:
    """What was observed of one kind.

    Args:
        count: observations by size.
        total: summed ms by size.
    """

    count: dict[int, float] = field(default_factory=dict)
    total: dict[int, float] = field(default_factory=dict)

    def add(self, units: int, took: float) -> None:
        self.count[units] = self.count.get(units, 0.0) + 1.0
        self.total[units] = self.total.get(units, 0.0) + took
        if sum(self.count.values()) >= MEMORY:
            for sums in (self.count, self.total):
                sums.update({size: value / 2 for size, value in sums.items()})

    def improve(self, sizes: Sequence[int], prior: Sequence[float]) -> list[float]:
        """Return the expected ms at each size, from what was expected before anything was observed."""
        counts = [self.count.get(size, 0.0) for size in sizes]
        totals = [self.total.get(size, 0.0) for size in sizes]
        seen = sum(counts)
        if not seen:
            return list(prior)
        expected = sum(count * before for count, before in zip(counts, prior, strict=True))
        weight = PRIOR * expected / seen
        scale = (weight + sum(totals)) / (weight + expected)
        means = [
            (SHAPE * scale * before + total) / (SHAPE + count)
            for count, total, before in zip(counts, totals, prior, strict=True)
        ]
        return _never_rising(means, [SHAPE + count for count in counts])


def _never_rising(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the closest values that do not rise: noise must not say that more units take longer.

    Neighbours that rise are pooled at their weighted mean (isotonic regression by pooling adjacent violators).
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            (left, lighter, few), (right, heavier, more) = pools[-2:]
            both = lighter + heavier
            pools[-2:] = [((left * lighter + right * heavier) / both, both, few + more)]
    return [value for value, _, size in pools for _ in range(size)]


class Estimates:
    """Observed durations by kind. Pure: whoever owns it keeps the rows that changed somewhere."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[Kind, _Sums] = OrderedDict()

    def observe(self, task: str, bucket: str, units: int, took: int) -> list[Kind]:
        """Take in one action that ran to its end at one size.

        Args:
            task: its task.
            bucket: its bucket, "" if it has none.
            units: of its key resource.
            took: ms.

        Returns:
            The kinds whose `row` has changed, also by being forgotten.

        Raises:
            ValueError: a number is not positive.
        """
        if min(units, took) <= 0:
            raise ValueError(f"an observation of {task} needs positive numbers, not {units} units and {took} ms")
        changed = [(task, name) for name in dict.fromkeys((bucket, ""))]  # so a task outlives its buckets
        for kind in changed:
            self._kinds.setdefault(kind, _Sums()).add(units, took)
            self._kinds.move_to_end(kind)
        while len(self._kinds) > KINDS:
            changed.append(self._kinds.popitem(last=False)[0])
        return changed

    def observe_resized(
        self, task: str, bucket: str, held: Sequence[tuple[int, int]], sizes: Sequence[int], declared: Sequence[int]
    ) -> list[Kind]:
        """Take in one action whose size changed, as one that had the size it had longest all the time.

        What it got done at each size counts by the present estimate: only their ratios matter.

        Args:
            task: its task.
            bucket: its bucket, "" if it has none.
            held: (units, ms), one row per size that it had.
            sizes: allowed units, ascending.
            declared: ms at each, by its declaration.

        Returns:
            The kinds whose `row` has changed.

        Raises:
            ValueError: it had a size that is not allowed, or a number is not positive.
        """
        expected = dict(zip(sizes, self.durations(task, bucket, sizes, declared), strict=True))
        if not held or any(units not in expected or took <= 0 for units, took in held):
            raise ValueError(f"an observation of {task} needs sizes of {list(sizes)} and times, not {list(held)}")
        done = sum(took / expected[units] for units, took in held)
        main = max(held, key=lambda row: row[1])[0]
        return self.observe(task, bucket, main, max(1, round(expected[main] * done)))

    def durations(self, task: str, bucket: str, sizes: Sequence[int], declared: Sequence[int]) -> tuple[int, ...]:
        """Return the expected ms at each size, each >= 1 and never rising.

        Args:
            task: the task.
            bucket: the bucket.
            sizes: allowed units, ascending.
            declared: ms at each, by its declaration.
        """
        known = [self._kinds[task, name] for name in dict.fromkeys(("", bucket)) if (task, name) in self._kinds]
        if not known:
            return tuple(declared)
        expected = [float(duration) for duration in declared]
        for sums in known:
            expected = sums.improve(sizes, expected)
        return tuple(max(1, round(duration)) for duration in expected)

    def confidence(self, task: str, bucket: str) -> float:
        """Return how much of an estimate is observed and not declared, 0 to 1."""
        sums = self._kinds.get((task, bucket))
        count = 0.0 if sums is None else sum(sums.count.values())
        return count / (count + PRIOR)

    def row(self, kind: Kind) -> Row | None:
        """Return what is known of a kind; None if nothing is, or it was forgotten."""
        sums = self._kinds.get(kind)
        return None if sums is None else {str(units): [sums.count[units], sums.total[units]] for units in sums.count}

    def restore(self, kind: Kind, row: Mapping[str, Sequence[float]]) -> None:
        """Enter what `row` once returned.

        Raises:
            ValueError: it is no such row.
        """
        numbers = {int(units): (float(count), float(total)) for units, (count, total) in row.items()}
        if any(min(units, *pair) <= 0 for units, pair in numbers.items()):
            raise ValueError(f"the estimate of {kind} has numbers that are not positive: {dict(row)}")
        count = {units: pair[0] for units, pair in numbers.items()}
        self._kinds[kind] = _Sums(count, {units: pair[1] for units, pair in numbers.items()})
