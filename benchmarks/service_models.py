"""Six small reward models of different sizes for the benchmark `services`: random weights, real arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from workers.torch_service import LoadContext, Method, Model

WIDTHS = (1_200, 1_400, 1_600, 1_800, 2_000, 2_200)
NAMES = tuple(f"reward-{number}" for number in range(len(WIDTHS)))


def network(number: int) -> nn.Module:
    """Return the model of that number; the same weights every time."""
    width = WIDTHS[number]
    torch.manual_seed(number)
    layers = [nn.Linear(1, width), *(nn.Linear(width, width) for _ in range(3)), nn.Tanh(), nn.Linear(width, 1)]
    return nn.Sequential(*layers).eval().requires_grad_(False)


def answer(module: nn.Module, numbers: Sequence[float]) -> list[float]:
    """Return one number per number."""
    scores: list[float] = module(torch.tensor(numbers).unsqueeze(-1)).squeeze(-1).tolist()
    return scores


def _load(number: int, context: LoadContext) -> Model:
    return Model(network(number), {"score": Method(_numbers, answer, batch=64)})


def _numbers(payload: dict[str, Any]) -> list[float]:
    numbers: list[float] = payload["numbers"]
    return numbers


first, second, third, fourth, fifth, sixth = (partial(_load, number) for number in range(len(WIDTHS)))

#: As a node's options name them.
SERVICES = tuple(
    f"{name}={__name__}:{function}"
    for name, function in zip(NAMES, ("first", "second", "third", "fourth", "fifth", "sixth"), strict=True)
)
