"""Random draws that several workloads share, and how their parameters are read."""

from __future__ import annotations

import math
from importlib.resources import files
from random import Random
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

#: (mu, sigma) of a lognormal.
Lognormal = tuple[float, float]

#: What a prompt has of sigma, and what each of its trajectories has: together about the whole of it.
SHARE = 0.7

M = TypeVar("M", bound=BaseModel)


class Tables(BaseModel):
    """Parameters of one workload, from its packaged file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str


def packaged(model: type[M], name: str) -> M:
    """Return the packaged parameters NAME.json."""
    file = files("compose.simulate.workloads").joinpath(f"{name}.json")
    return model.model_validate_json(file.read_text(encoding="utf-8"))


def lognormal(random: Random, law: Lognormal) -> float:
    """Draw from a lognormal."""
    return math.exp(random.gauss(*law))


def grouped(random: Random, law: Lognormal, prompt: float) -> float:
    """Draw from a lognormal that a group has partly in common.

    Args:
        random: of what differs within the group.
        law: (mu, sigma).
        prompt: a standard normal, drawn once for the group.
    """
    mu, sigma = law
    return math.exp(mu + SHARE * sigma * (prompt + random.gauss()))


def amdahl(core_ms: float, serial: float, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return ms at each size of `core_ms` of work with a share that no further core speeds up (Amdahl's law)."""
    return tuple(max(1, round(core_ms * (serial + (1 - serial) / units))) for units in sizes)


def malleable(random: Random, share: float) -> bool:
    """Draw whether one elastic action may be resized while it runs."""
    return random.random() < share
