"""A service without a model: it answers by comparing characters. For trying and testing, without torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from typing import Any

from workers import payloads
from workers.canary import Canary
from workers.service import Place, Watch, method_named


@dataclass(frozen=True, slots=True)
class FakeMethod:
    """Implements `workers.service.Method`."""

    items: Callable[[dict[str, Any]], Sequence[Any]]
    answer: Callable[[str, str], float]
    batch: int = 16


def similarity(left: str, right: str) -> float:
    """Return how much of two texts is the same, from 0 to 1."""
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def plausibility(prompt: str, answer: str) -> float:
    """Return a number of at most 0 that is larger for answers that repeat their prompt."""
    return similarity(prompt, answer) - 1.0


class FakeReplica:
    """Implements `workers.service.Paged`: its bytes are counted, not moved."""

    def __init__(self, nbytes: int, page_in_s: float) -> None:
        self.nbytes = nbytes
        self.leased = False
        self._page_in_s = page_in_s

    def page_in(self, offset: int) -> None:
        """Take the time of a page-in."""
        time.sleep(self._page_in_s)

    def page_out(self) -> int:
        """Nothing is kept."""
        return 0

    def settle(self) -> str:
        """Nothing changes."""
        return ""


class FakeService:
    """Implements `workers.service.Service`.

    Args:
        name: by which actions ask for it.
        nbytes: bytes that it takes on a device.
        page_in_s: seconds that a page-in takes.
        item_s: seconds that an item takes.
        canary: a question with a known answer.
        sizes: numbers of devices that an action may have; () allows any.
    """

    residual_bytes = 0
    in_arena = False
    spans: tuple[tuple[int, ...], ...] = ()

    def __init__(
        self,
        name: str,
        nbytes: int,
        *,
        page_in_s: float = 0.0,
        item_s: float = 0.0,
        canary: Canary | None = None,
        sizes: tuple[int, ...] = (),
    ) -> None:
        self.name = name
        self.nbytes = nbytes
        self.canary = canary
        self.sizes = sizes
        self._page_in_s = page_in_s
        self._item_s = item_s
        self._methods = {
            "score": FakeMethod(partial(payloads.pairs, "score"), similarity),
            "logprob": FakeMethod(partial(payloads.answers, "logprob"), plausibility),
        }

    def replicas(self, places: Sequence[Place]) -> list[FakeReplica]:
        """Return one replica per place."""
        return [FakeReplica(self.nbytes, self._page_in_s) for _ in places]

    def method(self, name: str) -> FakeMethod:
        """Return a method. Raises InvalidAction naming those there are."""
        return method_named(self.name, self._methods, name)

    def run(self, name: str, replica: FakeReplica, items: Sequence[Any], watch: Watch) -> list[Any]:
        """Answer one batch, looking at the watch before each item."""
        answers = []
        for left, right in items:
            watch.check()
            time.sleep(self._item_s)
            answers.append(self._methods[name].answer(left, right))
        return answers

    def free(self) -> None:
        """Nothing is held."""
