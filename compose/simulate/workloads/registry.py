"""The workloads by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compose.simulate.cluster import Cluster
from compose.simulate.work import Workload
from compose.simulate.workloads import coding, deepsearch, jobs, mopd, sessions, swe
from tangram_tasks.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Source:
    """Where batches of one workload come from.

    Args:
        name: of the workload.
        about: one line for the reader.
        batch: trajectories of a usual batch.
        cluster: the machines that go with a batch.
        draw: draws a batch: name, trajectories, seed, share of elastic actions that are malleable (0 to 1).
    """

    name: str
    about: str
    batch: int
    cluster: Callable[[int], Cluster]
    draw: Callable[[str, int, int, float], Workload]


def sources() -> dict[str, Source]:
    """Return the packaged workloads."""
    found = [
        Source(name, coding.parameters().about, variant.batch, variant.cluster, coding.draw)
        for name, variant in coding.parameters().variants.items()
    ]
    for name, tables, draw in (
        ("mopd", mopd.parameters(), mopd.draw),
        ("deepsearch", deepsearch.parameters(), deepsearch.draw),
    ):
        found.append(Source(name, tables.about, tables.batch, tables.cluster, draw))
    base = coding.parameters().variants[jobs.BASE]
    found.append(Source("two-jobs", coding.parameters().about, base.batch, base.cluster, jobs.draw))
    found.append(Source("swe", sessions.parameters().about, swe.LIVE * swe.ROUNDS, swe.cluster, swe.draw))
    return {source.name: source for source in found}


def find(name: str) -> Source:
    """Return a workload by name. Raises ConfigurationError if there is none of it."""
    known = sources()
    if name not in known:
        raise ConfigurationError(f"there is no workload {name!r}: choose {', '.join(known)}, or give a trace")
    return known[name]
