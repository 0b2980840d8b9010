"""What a simulated batch does: trajectories of generation gaps and actions. Times are whole ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Work:
    """One action to come.

    Args:
        task: what kind it is, for the report.
        key: its key elastic resource: "cpu", "gpu" or "api:NAME".
        sizes: allowed units, ascending.
        durations: what it really takes at each size, ms, each at least 1.
        malleable: whether its units may change while it runs.
        light: whether it needs next to no cpu and therefore holds no units.
        service: the reward service it needs resident; GPU only.
    """

    task: str
    key: str
    sizes: tuple[int, ...]
    durations: tuple[int, ...]
    malleable: bool = False
    light: bool = False
    service: str | None = None

    def duration(self, units: int) -> int:
        """Return the ms it takes with `units`, if it is sized at all. Raises ValueError if that is no allowed size."""
        return self.durations[0 if self.light else self.sizes.index(units)]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: the model generates for `gap` ms, then the actions run side by side; the next turn waits for all."""

    gap: int
    actions: tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What one trajectory does.

    Args:
        id: its id.
        turns: in order.
        start: ms after the batch began.
        memory: MiB of its sandbox; None if it has none.
        job: the RL job it belongs to.
    """

    id: str
    turns: tuple[Turn, ...]
    start: int = 0
    memory: int | None = None
    job: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """A batch.

    Args:
        name: for the reader.
        plans: its trajectories.
        live: how many of them may be open at once; the next starts when one ends. None: all.
        restores: ms to page in a service, by its name.
        pod: cores that a static deployment reserves for one trajectory.
        static_gpus: devices that a static deployment dedicates to one service.
    """

    name: str
    plans: tuple[Plan, ...]
    live: int | None = None
    restores: Mapping[str, int] = field(default_factory=dict)
    pod: int = 1
    static_gpus: int = 1

    @property
    def actions(self) -> int:
        """How many actions it has."""
        return sum(len(turn.actions) for plan in self.plans for turn in plan.turns)

    def least_gpus(self) -> dict[str, int]:
        """Return the fewest devices that each service can run on."""
        works = (work for plan in self.plans for turn in plan.turns for work in turn.actions)
        asked = {work.service: work.sizes[0] for work in works if work.service is not None}
        return {service: asked.get(service, 1) for service in self.restores}


def ms(seconds: float) -> int:
    """Return whole milliseconds, at least 1."""
    return max(1, round(seconds * 1000))
