"""Several policies on the same batches: who runs on what, and everything that comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from compose.simulate.cluster import Cluster
from compose.simulate.machines import Costs
from compose.simulate.outcome import Outcome
from compose.simulate.policies import simulate
from compose.simulate.results import Run
from compose.simulate.work import Workload


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is to be run.

    Args:
        draw: returns the batch for a number of trajectories and a seed; equal arguments, equal batches.
        cluster: returns the machines for a number of trajectories.
        batches: numbers of trajectories.
        policies: names.
        seeds: one draw each.
        costs: what the machinery adds.
    """

    draw: Callable[[int, int], Workload]
    cluster: Callable[[int], Cluster]
    batches: Sequence[int]
    policies: Sequence[str]
    seeds: Sequence[int]
    costs: Costs

    @property
    def count(self) -> int:
        """How many runs it has."""
        return len(self.batches) * len(self.policies) * len(self.seeds)

    def runs(self) -> Iterator[tuple[Run, Outcome]]:
        """Run everything, batch by batch and policy by policy."""
        for batch in self.batches:
            workloads = [self.draw(batch, seed) for seed in self.seeds]
            for policy in self.policies:
                for seed, workload in zip(self.seeds, workloads, strict=True):
                    outcome = simulate(policy, self.cluster(batch), workload, self.costs, seed)
                    yield Run.of(policy, batch, seed, outcome), outcome
