"""A load for the scheduler core alone: trajectories on CPU nodes whose actions are short or elastic."""

from __future__ import annotations

from random import Random

from scheduler.core.admission import Admission
from scheduler.core.events import Action, NodeJoined, SandboxReady, TrajectoryOpened

#: Cores of each node, and its memory, MiB.
CORES, MEMORY = 256, 2**20
SIZES = (1, 2, 4, 8, 16, 32)


def deployment(policy: str, nodes: int, trajectories: int) -> Admission:
    """Return a scheduler core with so many nodes, and as many trajectories whose sandboxes are ready."""
    core = Admission(policy)
    core.handle_all(NodeJoined(0, f"n{node}", "cpu", {"cpu": CORES, "memory": MEMORY}) for node in range(nodes))
    core.handle_all(TrajectoryOpened(0, f"t{name}", 1024) for name in range(trajectories))
    core.handle_all(SandboxReady(0, f"t{name}") for name in range(trajectories))
    return core


def action(random: Random, seq: int, at: int, trajectory: int, elastic: float = 0.5) -> Action:
    """Return the next action of a trajectory: one core, or one to 32 by Amdahl's law; half of those malleable."""
    sizes = SIZES if random.random() < elastic else (1,)
    base, serial = random.lognormvariate(9.0, 1.0), random.uniform(0.02, 0.1)
    return Action(
        id=f"a{seq}",
        seq=seq,
        arrival=at,
        demand={"cpu": 1},
        key="cpu",
        sizes=sizes,
        durations=tuple(max(1, round(base * (serial + (1 - serial) / size))) for size in sizes),
        trajectory=f"t{trajectory}",
        malleable=len(sizes) > 1 and random.random() < 0.5,
    )


def quantile(values: list[float], share: float) -> float:
    """Return the value below which a share of them lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
