"""SWE agents: the measured sessions of `sessions`, as actions. Only tests with a parallel phase are elastic."""

from __future__ import annotations

from math import ceil
from random import Random

from compose.simulate.cluster import Cluster, CpuNodes
from compose.simulate.work import Plan, Turn, Work, Workload, ms
from compose.simulate.workloads import sessions
from compose.simulate.workloads.draws import amdahl, malleable

#: Share of a parallel test's core-seconds outside its parallel phase (measured: 42 %).
SERIAL = 0.42
#: MiB of a sandbox: the measured median of a session's peak, doubled.
MEMORY = 560
#: Trajectories that are open at once, and how many of them a batch has for each.
LIVE, ROUNDS = 128, 3
#: Cores an open session holds on average when every action holds one; sets the nominal load.
HELD_CORES = 0.351
#: Nominal load of the default cluster.
LOAD = 0.75


def cluster(batch: int) -> Cluster:
    """Return one node with the nominal load."""
    cores = max(1, round(min(batch, LIVE) * HELD_CORES / LOAD))
    return Cluster(cpu=(CpuNodes(cores=cores),))


def draw(name: str, batch: int, seed: int, malleable_share: float) -> Workload:
    """Draw a batch, of which 128 trajectories are open at once."""
    generator, random = sessions.Generator(seed), Random(seed)
    plans = tuple(
        Plan(f"t{place}", tuple(_turn(turn, random, malleable_share) for turn in generator.trajectory()), 0, MEMORY)
        for place in range(batch)
    )
    return Workload(name, plans, live=min(batch, LIVE))


def _turn(turn: sessions.Turn, random: Random, share: float) -> Turn:
    return Turn(ms(turn.gap), tuple(_work(turn.kind, call, random, share) for call in turn.calls))


def _work(kind: sessions.Kind, call: sessions.Call, random: Random, share: float) -> Work:
    if call.peak is None:
        return Work(kind, "cpu", (1,), (ms(call.duration),))
    sizes = tuple(1 << step for step in range(ceil(call.peak - 1).bit_length() + 1))
    durations = amdahl(1000 * call.duration * call.cores, SERIAL, sizes)
    return Work(kind, "cpu", sizes, durations, malleable=malleable(random, share))
