"""Deep search: many calls of an API with a quota, then one judgement on a GPU."""

from __future__ import annotations

from functools import cache
from random import Random

from compose.simulate.cluster import Cluster, GpuNodes, Provider
from compose.simulate.work import Plan, Turn, Work, Workload, ms
from compose.simulate.workloads.draws import Lognormal, Tables, grouped, lognormal, packaged

#: The API's key resource, and the judge's name.
SEARCH, JUDGE = "api:search", "judge"


class DeepSearch(Tables):
    """The parameters of `deepsearch.json`; lognormals of times are of seconds.

    Args:
        batch: trajectories.
        group: trajectories per prompt, which share how many calls they need.
        calls: API calls of a trajectory.
        calls_range: at least and at most.
        gap: generation before each action.
        latency: of an API call that is accepted.
        judge: one judgement, on one device.
        judges: devices.
        restore_s: page-in of the judge.
        per_second: calls that may start per second.
        burst: calls that may start at once.
        concurrency: calls in flight.
    """

    batch: int
    group: int
    calls: Lognormal
    calls_range: tuple[int, int]
    gap: Lognormal
    latency: Lognormal
    judge: Lognormal
    judges: int
    restore_s: float
    per_second: float
    burst: int
    concurrency: int

    def cluster(self, batch: int) -> Cluster:
        """Return the machines, whatever the batch."""
        search = Provider(concurrency=self.concurrency, per_second=self.per_second, burst=self.burst)
        return Cluster(gpu=(GpuNodes(count=self.judges // 8),), providers={"search": search})


@cache
def parameters() -> DeepSearch:
    """Return the packaged parameters."""
    return packaged(DeepSearch, "deepsearch")


def draw(name: str, batch: int, seed: int, malleable_share: float) -> Workload:
    """Draw a batch. Nothing in it is elastic."""
    tables, random = parameters(), Random(seed)
    plans = []
    depth = 0.0
    for place in range(batch):
        if place % tables.group == 0:
            depth = random.gauss()
        plans.append(Plan(f"t{place}", _turns(tables, depth, random)))
    return Workload(name, tuple(plans), restores={JUDGE: ms(tables.restore_s)})


def _turns(tables: DeepSearch, depth: float, random: Random) -> tuple[Turn, ...]:
    fewest, most = tables.calls_range
    calls = min(max(round(grouped(random, tables.calls, depth)), fewest), most)
    works = [Work("search", SEARCH, (1,), (ms(lognormal(random, tables.latency)),)) for _ in range(calls)]
    judge = Work("judge", "gpu", (1,), (ms(lognormal(random, tables.judge)),), service=JUDGE)
    return tuple(Turn(ms(lognormal(random, tables.gap)), (work,)) for work in [*works, judge])
