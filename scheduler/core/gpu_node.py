"""One GPU node: its devices, what they hold, and who runs there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.warmth import Warmth

GPU = "gpu"


class GpuNode:
    """A node of the GPU pool.

    Which devices an action gets, and what is paged out for it, is the node's business; `devices` is a picture of it.

    Args:
        name: the node.
        devices: how many it announced.
    """

    key = GPU

    def __init__(self, name: str, devices: int) -> None:
        self.name = name
        self.devices = Warmth(devices)
        self.services: frozenset[str] = frozenset()
        self.draining = False
        self.running: dict[str, Running] = {}
        self.used = 0

    @property
    def capacity(self) -> Mapping[str, int]:
        """What there is, by resource."""
        return {GPU: len(self.devices)}

    @property
    def room(self) -> int:
        """Devices that a new action may get: none while the node drains or has shrunk below what is held."""
        return 0 if self.draining else max(0, len(self.devices) - self.used)

    def could_run(self, action: Action) -> bool:
        """Whether the action could start if nobody held anything, and its service is here."""
        return (action.service is None or action.service in self.services) and self.could_hold(action.demand)

    def could_hold(self, demand: Mapping[str, int]) -> bool:
        """Whether the demand would fit if nobody held anything."""
        return all(amount <= self.capacity.get(name, 0) for name, amount in demand.items())

    def hold(self, action: Action, hold: Running, spare: Mapping[str, int]) -> list[int]:
        """Enter in the books that an action runs here. Returns the devices that did not hold its service before.

        Args:
            action: who.
            hold: what it has.
            spare: devices that each service could do without.
        """
        self.running[action.id] = hold
        self.used += hold.units[GPU]
        return self.devices.occupy(action.id, action.service, hold.units[GPU], spare)

    def release(self, action: str) -> None:
        """Give back what an action holds. Raises KeyError if it holds nothing here."""
        self.used -= self.running.pop(action).units[GPU]
        self.devices.leave(action)

    def sketch(self) -> Self:
        """Return a copy to plan on: devices can be taken there and nothing happens here."""
        copy = type(self)(self.name, 0)
        copy.devices = self.devices.copy()
        copy.services, copy.draining = self.services, self.draining
        copy.running, copy.used = dict(self.running), self.used
        return copy

    def validate(self) -> None:
        """Raise AssertionError if the books do not add up."""
        held = sum(hold.units[GPU] for hold in self.running.values())
        assert self.used == held, f"node {self.name}: used gpu={self.used}, but {held} is held"
        strangers = self.devices.occupants() - self.running.keys()
        assert not strangers, f"node {self.name}: {sorted(strangers)} have devices but hold nothing"
