"""A queue that RL jobs share by weight: within a job first come, first served; between jobs whoever had least.

Start-time fair queuing (Goyal, Vin and Cheng, 1997): each job has a clock that runs on by what it is served, divided
by its weight; the job whose clock shows least is next. A job that was away begins at the time of those who stayed:
it neither saves up nor pays back. Jobs of which no weight is known share as one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import overload

from scheduler.core.events import Action
from scheduler.core.fcfs import FcfsQueue, order

#: Clocks are whole numbers: one unit of service of weight 1 takes so much.
SCALE = 1_000

#: The line of all jobs of which no weight is known.
REST = ""


class FairQueue(Sequence[Action]):
    """Waiting actions in the order in which they would be served if nobody else came.

    Args:
        cost: what serving an action at its smallest size counts.
    """

    def __init__(self, cost: Callable[[Action], int]) -> None:
        self._cost = cost
        self._shares: dict[str, int] = {}
        self._lines: dict[str, FcfsQueue] = {REST: FcfsQueue()}
        self._clocks: dict[str, int] = {REST: 0}
        self._now = 0
        self._merged: list[Action] = []
        self._source: Iterator[Action] = iter(())

    @property
    def actions(self) -> Sequence[Action]:
        """The waiting actions themselves, first to be served first; not a copy."""
        return self._lines[REST].actions if len(self._lines) == 1 else self

    def share(self, weights: Mapping[str, int]) -> None:
        """Let the jobs have these weights, and no others any."""
        if self._shares.keys() != weights.keys():
            waiting = sorted(self, key=order)
            self._shares = dict(weights)
            self._lines = {name: FcfsQueue() for name in (REST, *weights)}
            self._clocks = {name: self._clocks.get(name, self._now) for name in self._lines}
            for action in waiting:
                self._lines[self._line(action)].add(action)
        self._shares = dict(weights)
        self._stir()

    def add(self, action: Action) -> None:
        """Put an action in its place."""
        name = self._line(action)
        if not self._lines[name]:
            self._clocks[name] = max(self._clocks[name], self._now)
        self._lines[name].add(action)
        self._stir()

    def remove(self, action: Action) -> None:
        """Take an action out. Raises KeyError if it is not in the queue."""
        self._lines[self._line(action)].remove(action)
        self._stir()

    def served(self, action: Action, cost: int) -> None:
        """Note that an action, which has left the queue, was served."""
        name = self._line(action)
        self._now = max(self._now, self._clocks[name])
        self._clocks[name] += self._step(name, cost)
        self._stir()

    def validate(self, place: str) -> None:
        """Raise AssertionError, naming the place, if a line is out of order."""
        for name, line in self._lines.items():
            waiting = list(line)
            assert waiting == sorted(waiting, key=order), f"{place}: the queue is out of order (job {name!r})"
            assert all(self._line(action) == name for action in waiting), f"{place}: strangers wait as job {name!r}"

    @overload
    def __getitem__(self, place: int) -> Action: ...

    @overload
    def __getitem__(self, place: slice) -> list[Action]: ...

    def __getitem__(self, place: int | slice) -> Action | list[Action]:
        size = len(self)
        last = place.indices(size)[1] if isinstance(place, slice) else (place if place >= 0 else size + place) + 1
        while len(self._merged) < min(last, size):
            self._merged.append(next(self._source))
        return self._merged[place]

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Action]:
        return iter(self[:])

    def _line(self, action: Action) -> str:
        return action.job if action.job in self._shares else REST

    def _step(self, name: str, cost: int) -> int:
        return SCALE * cost // self._shares.get(name, 1)

    def _stir(self) -> None:
        self._merged, self._source = [], self._merge()

    def _merge(self) -> Iterator[Action]:
        """Yield everybody as they would be served; the queue must not change meanwhile."""
        lines = {name: iter(line) for name, line in self._lines.items() if line}
        heap: list[tuple[int, tuple[int, int, str], str, Action]] = []
        for name, line in lines.items():
            head = next(line)
            heap.append((self._clocks[name], order(head), name, head))
        heapq.heapify(heap)
        while heap:
            clock, _, name, action = heapq.heappop(heap)
            yield action
            following = next(lines[name], None)
            if following is not None:
                clock += self._step(name, self._cost(action))
                heapq.heappush(heap, (clock, order(following), name, following))
