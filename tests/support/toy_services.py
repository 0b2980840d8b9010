"""Tiny random models as services, for tests of paging. Needs torch."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workers.torch_service import LoadContext, Method, Model


class Scorer(nn.Module):
    """Numbers in, numbers out; the output depends on every weight."""

    def __init__(self, width: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Linear(width, 1))
        self.register_buffer("scale", torch.rand(1))
        self.scale: Tensor

    def forward(self, numbers: Tensor) -> Tensor:
        states: Tensor = self.layers(numbers.unsqueeze(-1))
        return states.squeeze(-1) * self.scale


class TiedScorer(nn.Module):
    """The head is the embedding, and the key and value matrices are halves of one storage."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(8192, 32)
        self.head = nn.Linear(32, 8192, bias=False)
        self.head.weight = self.embedding.weight
        whole = torch.randn(64, 32)
        self.key = nn.Parameter(whole[:32])
        self.value = nn.Parameter(whole[32:].t())

    def forward(self, numbers: Tensor) -> Tensor:
        states = self.embedding(numbers.long() % 8192) @ self.key @ self.value
        logits: Tensor = self.head(states)
        return logits.amax(-1)


class CountingScorer(nn.Module):
    """Adds up what it has seen; 1.1 MiB."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(300_000))
        self.register_buffer("total", torch.zeros(1))
        self.total: Tensor

    def forward(self, numbers: Tensor) -> Tensor:
        self.total += numbers.sum()
        return (self.weight[:1] * self.total).expand(len(numbers))


def _items(payload: dict[str, Any]) -> list[float]:
    numbers: list[float] = payload["numbers"]
    return numbers


def _run(module: nn.Module, numbers: Sequence[float]) -> list[float]:
    device = next(module.parameters()).device
    answers: Tensor = module(torch.tensor(numbers, device=device))
    return answers.tolist()


def model(module: nn.Module, mutable: frozenset[str] = frozenset()) -> Model:
    """Return the module as a model with one method, `score`."""
    return Model(module.eval(), {"score": Method(_items, _run, batch=4)}, mutable)


def small(context: LoadContext) -> Model:
    """1.2 MiB."""
    return model(Scorer(550, seed=1))


twin = triplet = small


def large(context: LoadContext) -> Model:
    """1.8 MiB."""
    return model(Scorer(680, seed=2))


def tied(context: LoadContext) -> Model:
    """1 MiB, with tied weights and views."""
    return model(TiedScorer(seed=3))


def counting(context: LoadContext) -> Model:
    """Declares that its buffer changes."""
    return model(CountingScorer(), frozenset({"total"}))


def counting_undeclared(context: LoadContext) -> Model:
    """Does not say so."""
    return model(CountingScorer())


def broken(context: LoadContext) -> Model:
    """Fails in every call."""

    def fail(module: nn.Module, numbers: Sequence[float]) -> list[float]:
        raise RuntimeError("matrix on fire")

    return Model(Scorer(8, seed=4).eval(), {"score": Method(_items, fail)})


#: Lets `endless` end.
END = threading.Event()


def endless(context: LoadContext) -> Model:
    """Computes until `END` is set, and not for ever even then: 60 s."""

    def run(module: nn.Module, numbers: Sequence[float]) -> list[float]:
        END.wait(60)
        return list(numbers)

    return Model(Scorer(8, seed=6).eval(), {"score": Method(_items, run)})


def slow_once(context: LoadContext) -> Model:
    """Computes for a minute if the file TOY_MARKER is not there, and leaves it behind."""

    def run(module: nn.Module, numbers: Sequence[float]) -> list[float]:
        marker = Path(os.environ["TOY_MARKER"])
        if not marker.exists():
            marker.touch()
            time.sleep(60)
        return _run(module, numbers)

    return Model(Scorer(550, seed=8).eval(), {"score": Method(_items, run)})


def training(context: LoadContext) -> Model:
    """Was left in training mode."""
    return Model(Scorer(8, seed=5).train(), {})
