"""A domain: one place with its own queue and its own books, in which the policy decides.

A CPU node, a GPU node and an API provider are domains. There is no global queue, so a decision costs what one node
has, not what the deployment has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace

from scheduler.core.completion import Running
from scheduler.core.events import Action
from scheduler.core.fcfs import FcfsQueue, order
from scheduler.core.policy import Policy

CPU = "cpu"
GPU = "gpu"
MEMORY = "memory"
API_PREFIX = "api:"

Amounts = dict[str, int]


def in_words(amounts: Mapping[str, int]) -> str:
    """Return amounts as people read them, for example "cpu=4 memory=512"."""
    return " ".join(f"{name}={amount}" for name, amount in sorted(amounts.items())) or "nothing"


def expected_duration(action: Action, units: int) -> int:
    """Return the expected duration in ms at the largest allowed size that is at most `units`, else at the smallest."""
    return action.durations[max(0, bisect_right(action.sizes, units) - 1)]


class Domain:
    """Capacity, who holds it and who waits for it.

    Args:
        name: the node's name, or "api:NAME".
        key: the resource whose units are shared out here.
        capacity: what there is, by resource; its names are the domain's dimensions.
    """

    def __init__(self, name: str, key: str, capacity: Mapping[str, int]) -> None:
        self.name = name
        self.key = key
        self.capacity: Amounts = dict(capacity)
        self.used: Amounts = dict.fromkeys(capacity, 0)
        self.running: dict[str, Running] = {}
        self.queue = FcfsQueue()
        self.queued_units = 0
        self.changed = True
        self.draining = False

    def could_hold(self, demand: Mapping[str, int]) -> bool:
        """Whether the demand would fit if nobody held anything."""
        capacity = self.capacity
        for name, amount in demand.items():  # noqa: SIM110 -- all() takes twice as long; a join asks for all who wait
            if amount > capacity.get(name, 0):
                return False
        return True

    def free(self, now: int) -> Amounts:
        """Return what nobody holds at `now` ms; 0 where a shrunken capacity is overdrawn."""
        return {name: max(0, amount - self.used[name]) for name, amount in self.capacity.items()}

    @property
    def spare_units(self) -> int:
        """Units nobody holds, net of the minimum demand of everybody who waits here. May be negative."""
        return self.capacity[self.key] - self.used[self.key] - self.queued_units

    def resize(self, capacity: Mapping[str, int]) -> None:
        """Take over a new capacity of the same dimensions. Who holds units keeps them."""
        self.capacity = dict(capacity)
        self.changed = True

    def enqueue(self, action: Action) -> None:
        """Let an action wait here."""
        self.queue.add(action)
        self.queued_units += action.sizes[0]
        self.changed = True

    def dequeue(self, action: Action) -> None:
        """Let an action wait here no more. Raises KeyError if it does not."""
        self.queue.remove(action)
        self.queued_units -= action.sizes[0]
        self.changed = True

    def hold(self, now: int, action: Action, node: str, units: int) -> None:
        """Enter in the books that an action has `units` of the key resource from `now` ms on, fitting or not."""
        charge = {**action.demand, self.key: units}
        self.used = {name: amount + charge.get(name, 0) for name, amount in self.used.items()}
        self.running[action.id] = Running(now + expected_duration(action, units), charge)
        self.changed = True

    def release(self, action: str) -> None:
        """Give back what an action holds. Raises KeyError if it holds nothing."""
        charge = self.running.pop(action).units
        self.used = {name: amount - charge.get(name, 0) for name, amount in self.used.items()}
        self.changed = True

    def rescale(self, action: str, units: int) -> None:
        """Enter in the books that an action holds other units of the key resource now. Raises KeyError."""
        running = self.running[action]
        self.used[self.key] += units - running.units[self.key]
        self.running[action] = replace(running, units={**running.units, self.key: units})
        self.changed = True

    def pick_node(self) -> str:
        """Return the node on which the next action of this domain starts."""
        return self.name

    def due(self, now: int) -> bool:
        """Whether a decision at `now` ms could differ from the last one."""
        return self.changed and len(self.queue) > 0

    def wake(self) -> int | None:
        """Return the ms at which a decision could differ although nothing happens, or None if there is none."""
        return None

    def decide(self, now: int, policy: Policy) -> list[tuple[Action, str, int]]:
        """Start what the policy says at `now` ms. Returns (action, node, units) in queue order.

        Raises:
            ValueError: the policy gave units that are not free or not an allowed size.
        """
        granted = []
        for action, units in policy.decide(now, self.free(now), self.running.values(), self.queue.actions):
            self._check_fits(now, action, units)
            self.dequeue(action)
            node = self.pick_node()
            self.start(now, action, node, units)
            granted.append((action, node, units))
        self.changed = False
        return granted

    def start(self, now: int, action: Action, node: str, units: int) -> None:
        """Book a fresh grant; a provider also spends tokens on it."""
        self.hold(now, action, node, units)

    def validate(self) -> None:
        """Raise AssertionError if the books do not add up."""
        for name in self.used:
            held = sum(hold.units.get(name, 0) for hold in self.running.values()) + self.reserved(name)
            assert self.used[name] == held, f"domain {self.name}: used {name}={self.used[name]}, but {held} is held"
        waiting = list(self.queue)
        assert waiting == sorted(waiting, key=order), f"domain {self.name}: the queue is out of order"
        minimum = sum(action.sizes[0] for action in waiting)
        assert self.queued_units == minimum, f"domain {self.name}: queued_units={self.queued_units}, not {minimum}"
        both = {action.id for action in waiting} & self.running.keys()
        assert not both, f"domain {self.name}: {sorted(both)} wait and run"

    def reserved(self, name: str) -> int:
        """Return how much of a resource is held by other things than actions."""
        return 0

    def _check_fits(self, now: int, action: Action, units: int) -> None:
        charge, free = {**action.demand, self.key: units}, self.free(now)
        if units not in action.sizes or any(amount > free.get(name, 0) for name, amount in charge.items()):
            raise ValueError(
                f"the policy gave action {action.id} {units} units on {self.name}, where {in_words(free)} is free"
                f" and its sizes are {action.sizes}: this policy is broken"
            )
