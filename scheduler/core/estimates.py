"""Learned durations: what each kind of action really takes at each size.

A kind is a task and a *bucket*, a key that its user may give (the repository, say). What is declared is a prior that
counts as `PRIOR` observations; the arithmetic mean of what is observed takes over. The mean, not the median: sums of
durations decide, and these have heavy tails. A wrong hint heals in three steps of trust: the scale of the whole curve
is learned from all sizes together, then each size from its own observations, and a bucket starts from its task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: Observations that a prior is worth.
PRIOR = 3.0

Document = dict[str, dict[str, dict[str, list[float]]]]


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
            (PRIOR * scale * before + total) / (PRIOR + count)
            for count, total, before in zip(counts, totals, prior, strict=True)
        ]
        return _never_rising(means, [PRIOR + count for count in counts])


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
    """Observed durations by task and bucket. Pure: whoever owns it keeps `to_dict` somewhere."""

    def __init__(self) -> None:
        self._tasks: dict[str, dict[str, _Sums]] = {}

    def observe(self, task: str, bucket: str, units: int, took: int) -> None:
        """Take in one action that ran to its end at one size.

        Args:
            task: its task.
            bucket: its bucket, "" if it has none.
            units: of its key resource.
            took: ms.

        Raises:
            ValueError: a number is not positive.
        """
        if min(units, took) <= 0:
            raise ValueError(f"an observation of {task} needs positive numbers, not {units} units and {took} ms")
        buckets = self._tasks.setdefault(task, {"": _Sums()})
        for name in {"", bucket}:
            buckets.setdefault(name, _Sums()).add(units, took)

    def durations(self, task: str, bucket: str, sizes: Sequence[int], declared: Sequence[int]) -> tuple[int, ...]:
        """Return the expected ms at each size, each >= 1 and never rising.

        Args:
            task: the task.
            bucket: the bucket.
            sizes: allowed units, ascending.
            declared: ms at each, by its declaration.
        """
        buckets = self._tasks.get(task, {})
        expected = [float(duration) for duration in declared]
        for name in dict.fromkeys(("", bucket)):
            if name in buckets:
                expected = buckets[name].improve(sizes, expected)
        return tuple(max(1, round(duration)) for duration in expected)

    def confidence(self, task: str, bucket: str) -> float:
        """Return how much of an estimate is observed and not declared, 0 to 1."""
        sums = self._tasks.get(task, {}).get(bucket)
        count = 0.0 if sums is None else sum(sums.count.values())
        return count / (count + PRIOR)

    def to_dict(self) -> Document:
        """Return everything, in a form that JSON can carry: task, bucket, units, then [count, total ms]."""
        return {
            task: {
                bucket: {str(units): [sums.count[units], sums.total[units]] for units in sums.count}
                for bucket, sums in buckets.items()
            }
            for task, buckets in self._tasks.items()
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> Estimates:
        """Return the estimates that `to_dict` described."""
        made = cls()
        for task, buckets in document.items():
            made._tasks[task] = {
                bucket: _Sums(*({int(units): row[place] for units, row in rows.items()} for place in range(2)))
                for bucket, rows in buckets.items()
            }
        return made
