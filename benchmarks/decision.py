"""How long the scheduler core takes per event, policy "live": 1,536 actions on 15 nodes of 256 cores.

The closed loop keeps 1,536 actions in the system: each that ends is followed by the next of its trajectory. What is
timed there is the whole event, books and decision. The bulk is 1,536 actions that arrive together; its figure is the
time of the 15 decisions, and the detail has the time of everything, with checking and booking each action.
Times are CPU times of the thread: whatever else the machine does must not count.
"""

from __future__ import annotations

import gc
import heapq
from collections.abc import Iterable
from random import Random
from time import thread_time
from typing import Any

from benchmarks.core_load import action, deployment, quantile
from benchmarks.machine import machine
from scheduler.core.events import Action, Decision, Event, Grant, Released, Resize, Resized, Submitted
from scheduler.core.live import LivePolicy
from scheduler.core.policy import POLICIES

ACTIONS, NODES, ROUNDS = 1536, 15, 20_000


class _Timed(LivePolicy):
    """The policy, with the seconds that its decisions took."""

    spent = 0.0

    def decide(self, *scene: Any) -> list[tuple[Action, int]]:
        """Decide and add up the time."""
        begin = thread_time()
        decided = super().decide(*scene)
        type(self).spent += thread_time() - begin
        return decided


class _Loop:
    """The system under load, in virtual time."""

    def __init__(self, seed: int, policy: str) -> None:
        self._random = Random(seed)
        self._core = deployment(policy, NODES, ACTIONS)
        self._ends: list[tuple[int, int, str]] = []
        self._durations: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._acks: list[Resize] = []
        self.at, self.count = 0, 0
        self.times: list[float] = []

    def arrive(self, trajectories: Iterable[int]) -> float:
        """Let trajectories ask for their next action, together. Returns the seconds that took."""
        events: list[Event] = []
        for trajectory in trajectories:
            self.count += 1
            wanted = action(self._random, self.count, self.at, trajectory)
            self._durations[wanted.id] = (wanted.sizes, wanted.durations)
            events.append(Submitted(self.at, wanted))
        return self._feed(events)

    def step(self) -> None:
        """Let nodes answer, then the next action end and its trajectory go on."""
        acks, self._acks = self._acks, []
        for order in acks:
            self.times.append(self._feed([Resized(self.at, order.action, order.units)]))
        self.at, trajectory, ended = heapq.heappop(self._ends)
        del self._durations[ended]
        self.times.append(self._feed([Released(self.at, ended)]))
        self.times.append(self.arrive([trajectory]))

    def _feed(self, events: list[Event]) -> float:
        begin = thread_time()
        decisions = self._core.handle_all(events)
        took = thread_time() - begin
        self._carry_out(decisions)
        return took

    def _carry_out(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Grant):
                sizes, durations = self._durations[decision.action]
                end = self.at + durations[sizes.index(decision.units)]
                heapq.heappush(self._ends, (end, self._random.randrange(ACTIONS), decision.action))
            elif isinstance(decision, Resize):
                self._acks.append(decision)


def _bulks(count: int) -> tuple[list[float], list[float]]:
    """Return the ms that everything took, and the decisions alone, for so many bulks."""
    POLICIES["timed"] = _Timed
    totals, decisions = [], []
    for seed in range(count):
        loop, before = _Loop(seed, "timed"), _Timed.spent
        gc.collect()
        totals.append(loop.arrive(range(ACTIONS)) * 1000)
        decisions.append((_Timed.spent - before) * 1000)
    del POLICIES["timed"]
    return totals, decisions


def run() -> dict[str, Any]:
    """Measure; a bulk first, then the closed loop."""
    bulks, decisions = _bulks(9)
    gc.collect()
    gc.freeze()
    loop = _Loop(0, "live")
    loop.arrive(range(ACTIONS))
    for _ in range(ROUNDS):
        loop.step()
    gc.unfreeze()
    times = [took * 1000 for took in loop.times[len(loop.times) // 5 :]]
    p50, p99, bulk = quantile(times, 0.5), quantile(times, 0.99), quantile(decisions, 0.5)
    return {
        "name": "decision",
        "value": round(p50, 4),
        "unit": "CPU ms per event, p50",
        "reach": "p50 <= 0.1, p99 <= 1, bulk arrival of 1,536 <= 5",
        "holds": p50 <= 0.1 and p99 <= 1 and bulk <= 5,
        "n": len(times),
        "spread": {"p90": round(quantile(times, 0.9), 4), "p99": round(p99, 4), "max": round(max(times), 3)},
        "machine": machine(),
        "detail": {
            "bulk_decisions_ms": round(bulk, 2),
            "bulk_decisions_min_ms": round(min(decisions), 2),
            "bulk_with_books_ms": round(quantile(bulks, 0.5), 2),
        },
    }
