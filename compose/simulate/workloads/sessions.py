"""Draws SWE agent trajectories whose turns, gaps, durations and CPU shares follow measured quantiles.

The parameters are in `swe.json`, with their source. Quantile tables are inverted log-linearly between their levels;
the kind of a turn is a Markov chain; a Gaussian copula gives all calls of one kind in one trajectory a common
tendency to be short or long.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from statistics import NormalDist
from typing import Literal

from pydantic import BaseModel, ConfigDict

Kind = Literal["file", "shell", "python", "test", "install", "web"]

_NORMAL = NormalDist()
_FLOOR = 1e-3  # a level of 0 has no logarithm; 1 ms and 0.001 cores are nothing here


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call.

    Args:
        duration: seconds.
        cores: mean CPU cores used while it runs.
        peak: cores of its parallel phase; None for a serial call.
    """

    duration: float
    cores: float
    peak: float | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: the model generates, then the calls run in parallel.

    Args:
        gap: seconds of generation before the calls.
        kind: the kind of all its calls.
        calls: one to four.
    """

    gap: float
    kind: Kind
    calls: tuple[Call, ...]


class ParallelTests(BaseModel):
    """Which test calls have a parallel phase: rows of (from s, to s, probability, peaks seen in cores)."""

    model_config = ConfigDict(frozen=True)

    bins: tuple[tuple[float, float, float, tuple[float, ...]], ...]


class Parameters(BaseModel):
    """The tables of `swe.json`: `*_q` and `q` are quantile levels, the others values at those levels."""

    model_config = ConfigDict(frozen=True)

    about: str
    licence: str
    q: tuple[float, ...]
    kinds: tuple[Kind, ...]
    first: tuple[float, ...]
    next: tuple[tuple[float, ...], ...]
    parallel_calls: dict[Kind, tuple[float, ...]]
    dur_s: dict[Kind, tuple[float, ...]]
    dur_rho_traj: dict[Kind, float]
    cores: dict[Kind, tuple[float, ...]]
    cores_q: tuple[float, ...]
    test_parallel: ParallelTests
    gap_s: tuple[float, ...]
    first_gap_s: tuple[float, ...]
    first_gap_q: tuple[float, ...]
    gap_rho_traj: float
    turns: tuple[float, ...]


@cache
def parameters() -> Parameters:
    """Return the packaged parameters."""
    return Parameters.model_validate_json(
        files("compose.simulate.workloads").joinpath("swe.json").read_text(encoding="utf-8")
    )


def quantile(levels: Sequence[float], values: Sequence[float], u: float) -> float:
    """Return the value at level `u` in [0, 1], log-linear between the levels given."""
    right = min(max(bisect_right(levels, u), 1), len(levels) - 1)
    low, high = (math.log(max(values[i], _FLOOR)) for i in (right - 1, right))
    share = (u - levels[right - 1]) / (levels[right] - levels[right - 1])
    return math.exp(low + share * (high - low))


class Generator:
    """An endless source of trajectories.

    Args:
        seed: the same seed draws the same trajectories.
        tables: the parameters; by default the packaged ones.
    """

    def __init__(self, seed: int, tables: Parameters | None = None) -> None:
        self._random = Random(seed)
        self._tables = tables or parameters()

    def trajectory(self) -> tuple[Turn, ...]:
        """Draw the turns of one trajectory."""
        tables, random = self._tables, self._random
        tendency = {kind: random.gauss() for kind in tables.kinds}
        pace = random.gauss()
        count = max(1, round(quantile(tables.q, tables.turns, random.random())))
        return tuple(
            Turn(self._paced_gap(place, pace), kind, self._calls(kind, tendency[kind]))
            for place, kind in enumerate(self._kinds(count))
        )

    def gap(self) -> float:
        """Draw one more generation gap in seconds, for a turn that the caller adds."""
        return quantile(self._tables.q, self._tables.gap_s, self._random.random())

    def _kinds(self, count: int) -> Iterator[Kind]:
        weights = self._tables.first
        for _ in range(count):
            kind = self._random.choices(self._tables.kinds, weights)[0]
            yield kind
            weights = self._tables.next[self._tables.kinds.index(kind)]

    def _paced_gap(self, place: int, pace: float) -> float:
        tables = self._tables
        if place == 0:
            return quantile(tables.first_gap_q, tables.first_gap_s, self._random.random())
        return quantile(tables.q, tables.gap_s, self._level(tables.gap_rho_traj, pace))

    def _calls(self, kind: Kind, tendency: float) -> tuple[Call, ...]:
        weights = self._tables.parallel_calls[kind]
        count = self._random.choices(range(1, len(weights) + 1), weights)[0]
        return tuple(self._call(kind, tendency) for _ in range(count))

    def _call(self, kind: Kind, tendency: float) -> Call:
        tables = self._tables
        duration = quantile(tables.q, tables.dur_s[kind], self._level(tables.dur_rho_traj[kind], tendency))
        cores = quantile(tables.cores_q, tables.cores[kind], self._random.random())
        peak = self._peak(duration) if kind == "test" else None
        # A test with a parallel phase uses at least 1.5 cores in the mean: that is how such tests were told apart.
        return Call(duration, cores if peak is None else max(1.5, cores), peak)

    def _peak(self, duration: float) -> float | None:
        for low, high, probability, peaks in self._tables.test_parallel.bins:
            if low <= duration < high and self._random.random() < probability:
                return self._random.choice(peaks)
        return None

    def _level(self, rho: float, common: float) -> float:
        """Return a uniform level that has correlation `rho` with the trajectory's common tendency."""
        return _NORMAL.cdf(math.sqrt(rho) * common + math.sqrt(1 - rho) * self._random.gauss())
