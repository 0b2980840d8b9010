"""A plan for the GPU pool: who takes which cell next, tried out on copies before anything happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.gpu_node import GPU, GpuNode


class Spot(NamedTuple):
    """An idle cell for an action; the least is the best.

    Args:
        loss: devices that other services would be short of.
        cold: devices that have to take its service in.
        room: what its node has: wide cells are kept whole for who needs them.
        node: where.
        units: devices.
    """

    loss: int
    cold: int
    room: int
    node: str
    units: int


class GpuPlan:
    """What has been planned so far, and what is left.

    Args:
        now: ms.
        nodes: of the pool.
        spare: devices that each service could do without.
    """

    def __init__(self, now: int, nodes: Iterable[GpuNode], spare: Mapping[str, int]) -> None:
        self._now = now
        self._spare = spare
        self._full: set[tuple[str | None, int]] = set()
        self.places = {node.name: node.sketch() for node in nodes if node.room}
        self.started: list[tuple[Action, str, int]] = []

    def warm(self) -> dict[str, int]:
        """Return the size of the largest idle cell that holds a service, by service."""
        largest: dict[str, int] = {}
        for place in self.places.values():
            for service, units in place.devices.idle().items():
                largest[service] = max(units, largest.get(service, 0))
        return largest

    def best(self, action: Action, units: int) -> Spot | None:
        """Return the best cell for an action, or None if no idle one is so large."""
        if (action.service, units) in self._full:
            return None
        spots = (self._spot(place, action, units) for place in self.places.values())
        found = min((spot for spot in spots if spot is not None), default=None)
        if found is None:
            self._full.add((action.service, units))
        return found

    def grown(self, action: Action, spot: Spot) -> Spot:
        """Return the largest cell that costs the action nothing, or `spot` if there is none."""
        spots = (self.best(action, units) for units in reversed(action.sizes) if units > spot.units)
        return next((larger for larger in spots if larger is not None and not larger.cold), spot)

    def start(self, action: Action, spot: Spot) -> None:
        """Plan that an action starts on a cell."""
        self.started.append((action, spot.node, spot.units))
        end = self._now + action.durations[action.sizes.index(spot.units)]
        place = self.places[spot.node]
        place.hold(action, Running(end, {GPU: spot.units}, action), self._spare)
        if not place.room:
            del self.places[spot.node]

    def reserve(self, action: Action) -> None:
        """Let nobody else start on the node that has most room for an action, until it has enough for it."""
        able = [place for place in self.places.values() if place.could_run(action)]
        if able:
            del self.places[max(able, key=lambda place: place.room).name]

    def _spot(self, place: GpuNode, action: Action, units: int) -> Spot | None:
        if place.room < units or not place.could_run(action):
            return None
        cell = place.devices.cell(action.service, units, self._spare)
        if cell is None:
            return None
        return Spot(*place.devices.cost(action.service, cell, self._spare), place.room, place.name, units)
