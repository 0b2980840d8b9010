"""AI coding: rigid tool calls of one core, then an elastic reward."""

from __future__ import annotations

import math
from functools import cache
from random import Random

from pydantic import BaseModel, ConfigDict

from compose.simulate.cluster import Cluster, CpuNodes
from compose.simulate.work import Plan, Turn, Work, Workload, ms
from compose.simulate.workloads.draws import Lognormal, Tables, amdahl, grouped, lognormal, malleable, packaged

#: No tool call is allowed to take longer, s.
TOOL_TIMEOUT = 120.0
#: Turns of a trajectory, at least and at most.
TURNS = (2, 80)
#: Of the natural logarithm of a trajectory's pace of generation.
PACE_SIGMA = 0.25


class Variant(BaseModel):
    """One set of parameters; lognormals are of seconds.

    Args:
        group: trajectories per prompt, which share how long they are and how heavy their reward is.
        turns: of a trajectory.
        gap: generation before each action.
        tool: a tool call on one core.
        reward_core_s: a reward, in core-seconds.
        reward_within_sigma: of the logarithm of its differences within a group.
        serial: a prompt's share of work that no further core speeds up; one of these.
        sizes: cores a reward may have.
        stagger_s: trajectories start within so many seconds.
        memory_mib: of a sandbox.
        pod: cores that a static deployment reserves per trajectory.
        batch: trajectories.
        nodes: of the cluster, whatever the batch.
        cores: of a node.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: int
    turns: Lognormal
    gap: Lognormal
    tool: Lognormal
    reward_core_s: Lognormal
    reward_within_sigma: float
    serial: tuple[float, ...]
    sizes: tuple[int, ...]
    stagger_s: float
    memory_mib: int
    pod: int
    batch: int
    nodes: int
    cores: int

    def cluster(self, batch: int) -> Cluster:
        """Return the machines."""
        return Cluster(cpu=(CpuNodes(count=self.nodes, cores=self.cores),))


class Coding(Tables):
    """The parameters of `coding.json`."""

    variants: dict[str, Variant]


@cache
def parameters() -> Coding:
    """Return the packaged parameters."""
    return packaged(Coding, "coding")


def draw(name: str, batch: int, seed: int, malleable_share: float) -> Workload:
    """Draw a batch of the variant `name`."""
    variant, random = parameters().variants[name], Random(seed)
    plans: list[Plan] = []
    while len(plans) < batch:
        plans += _group(variant, len(plans), min(variant.group, batch - len(plans)), random, malleable_share)
    return Workload(name, tuple(plans), pod=variant.pod)


def _group(variant: Variant, first: int, count: int, random: Random, share: float) -> list[Plan]:
    length, serial = random.gauss(), random.choice(variant.serial)
    weight = lognormal(random, variant.reward_core_s)
    plans = []
    for place in range(first, first + count):
        pace = math.exp(random.gauss(0, PACE_SIGMA))
        turns = round(grouped(random, variant.turns, length))
        core_ms = 1000 * weight * math.exp(random.gauss(0, variant.reward_within_sigma))
        reward = Work(
            task="reward",
            key="cpu",
            sizes=variant.sizes,
            durations=amdahl(core_ms, serial, variant.sizes),
            malleable=malleable(random, share),
        )
        works = [_tool(variant, random) for _ in range(min(max(turns, TURNS[0]), TURNS[1]))]
        gaps = [ms(pace * lognormal(random, variant.gap)) for _ in range(len(works) + 1)]
        start = round(1000 * random.uniform(0, variant.stagger_s))
        steps = tuple(Turn(gap, (work,)) for gap, work in zip(gaps, [*works, reward], strict=True))
        plans.append(Plan(f"t{place}", steps, start, variant.memory_mib))
    return plans


def _tool(variant: Variant, random: Random) -> Work:
    return Work("tool", "cpu", (1,), (ms(min(TOOL_TIMEOUT, lognormal(random, variant.tool))),))
