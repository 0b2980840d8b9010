"""A domain: one place with its own queue and its own books, in which the policy decides.

A CPU node, the GPU pool and an API provider are domains. There is no global queue for CPUs, so a decision costs what
one node has, not what the deployment has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping

from scheduler.core.attention import Attention
from scheduler.core.completion import Running, gains
from scheduler.core.delivery import Delivery
from scheduler.core.events import Action, Grant, PageIn, Resize
from scheduler.core.fair import FairQueue
from scheduler.core.policies import Policies
from scheduler.core.policy import Policy

CPU = "cpu"
MEMORY = "memory"
API_PREFIX = "api:"

Amounts = dict[str, int]
Order = Grant | Resize | PageIn

#: So many of those that wait are looked at to see who was passed over.
NOTED = 16


def in_words(amounts: Mapping[str, int]) -> str:
    """Return amounts as people read them, for example "cpu=4 memory=512"."""
    return " ".join(f"{name}={amount}" for name, amount in sorted(amounts.items())) or "nothing"


def _fits(demand: Mapping[str, int], left: Mapping[str, int]) -> bool:
    return all(amount <= max(0, left.get(name, 0)) for name, amount in demand.items())


def rank_of(action: Action, units: int) -> int:
    """Return the position of the largest allowed size that is at most `units`, else of the smallest."""
    return max(0, bisect_right(action.sizes, units) - 1)


class Domain:
    """Capacity, who holds it and who waits for it.

    Args:
        name: the node's name, or "api:NAME".
        key: the resource whose units are shared out here.
        capacity: what there is, by resource; its names are the domain's dimensions.
        attention: is told when something happens here.
    """

    kind = "api"

    def __init__(self, name: str, key: str, capacity: Mapping[str, int], attention: Attention[Domain]) -> None:
        self.place = attention.enrol(self.kind)
        self._attention = attention
        self.name = name
        self.key = key
        self.capacity: Amounts = dict(capacity)
        self.used: Amounts = dict.fromkeys(capacity, 0)
        self.running: dict[str, Running] = {}
        self.delivery = Delivery()
        self.queue = FairQueue(lambda action: self.cost(action, action.sizes[0]))
        self.queued_units = 0
        self.passed_over: Counter[str] = Counter()
        self.changed = False
        self.draining = False
        self.services: frozenset[str] = frozenset()
        self._look: int | None = None

    def could_run(self, action: Action) -> bool:
        """Whether the action could start if nobody held anything, and its service is here."""
        return (action.service is None or action.service in self.services) and self.could_hold(action.demand)

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

    def fits(self, now: int, action: Action) -> bool:
        """Whether nothing is missing for the action to start at `now` ms, at its smallest size."""
        return _fits(action.demand, self.free(now))

    def balance(self, now: int) -> Amounts:
        """Return what a policy may give at `now` ms: as `free`, but negative where more is held than there is.

        What such a domain takes back from running actions goes into the gap first.
        """
        return {name: amount - self.used[name] for name, amount in self.capacity.items()}

    @property
    def spare_units(self) -> int:
        """Units nobody holds, net of the minimum demand of everybody who waits here. May be negative."""
        return self.capacity[self.key] - self.used[self.key] - self.queued_units

    def resize(self, capacity: Mapping[str, int]) -> None:
        """Take over a new capacity of the same dimensions. Who holds units keeps them."""
        self.capacity = dict(capacity)
        self.touch()

    def enqueue(self, action: Action) -> None:
        """Let an action wait here."""
        self.queue.add(action)
        self.queued_units += action.sizes[0]
        self.touch()

    def dequeue(self, action: Action) -> None:
        """Let an action wait here no more, also for units promised to it. Raises KeyError if it does not."""
        if action.id in self.delivery.held_back:
            self.release(action.id)
        else:
            self._unqueue(action)
            self.touch()

    def waiting(self) -> list[Action]:
        """Return who queues here."""
        return list(self.queue)

    def held_back(self) -> list[Action]:
        """Return who was granted units here that the node does not have back yet, in that order."""
        rows = [self.running[action].action for action in self.delivery.held_back]
        return [action for action in rows if action is not None]

    def granted(self) -> list[str]:
        """Return who holds a grant that was given out."""
        return [action for action in self.running if action not in self.delivery.held_back]

    def hold(self, now: int, action: Action, node: str, units: int) -> None:
        """Enter in the books that an action has `units` of the key resource from `now` ms on, fitting or not."""
        charge = {**action.demand, self.key: units}
        self._charge(charge, 1)
        rank = rank_of(action, units)
        resizable = action.malleable and self.kind == CPU and action.sizes[rank] == units
        steps = gains(action) if resizable else ()
        self.running[action.id] = Running(now + action.durations[rank], charge, action, rank, steps)

    def restore(self, now: int, action: Action, node: str, units: int, lane: int = 0) -> None:
        """Enter in the books that an action holds a grant already; `lane` matters to API providers only.

        That makes nothing possible, so nothing is decided: others of the node may not be restored yet.
        """
        self.hold(now, action, node, units)
        self.delivery.settled(action.id, units)

    def release(self, action: str) -> None:
        """Give back what an action holds. Raises KeyError if it holds nothing."""
        self._charge(self.running.pop(action).units, -1)
        self.delivery.drop(action)
        self.touch()

    def confirm(self, now: int, action: str, units: int) -> None:
        """Take in a node's answer to a Resize. One that could not do as asked keeps that size to its end."""
        if action in self.delivery.held_back:
            return
        self._attention.touch(self)  # what was held back may go out now
        if not self.delivery.confirm(action, units):
            self._resize(now, action, units)
            self.running[action] = self.running[action]._replace(gains=())
            self.touch()

    def touch(self) -> None:
        """Note that something happened here, so that a decision may differ from the last one."""
        self.changed = True
        self._attention.touch(self)

    def pick_node(self) -> str:
        """Return the node on which the next action of this domain starts."""
        return self.name

    def wake(self) -> int | None:
        """Return the ms at which a decision could differ although nothing happens, or None if there is none."""
        return self._look

    def decide(self, now: int, policies: Policies) -> list[Order]:
        """Do what its policy says at `now` ms. Returns what the node can carry out now: shrinks first.

        Raises:
            ValueError: the policy gave units that are not free or not an allowed size.
        """
        policy = policies.api if self.kind == "api" else policies.cpu
        stale, self.changed = self._stale(now, always=policy.resizes), False
        if stale:
            self._apply(now, policy)
        return [*self.delivery.ready(self.capacity[self.key])] if self.delivery.pending else []

    def _apply(self, now: int, policy: Policy) -> None:
        running, queue, left = self.running.values(), self.queue.actions, self.balance(now)
        for action, units in policy.decide(now, left, running, queue):
            hold = self.running.get(action.id)
            self._check(action, units, hold, left)
            if hold is not None:
                self._resize(now, action.id, units)
                self.delivery.resize(action.id, self.name, units)
                left[self.key] += hold.units[self.key] - units
                continue
            self._unqueue(action)
            node = self.pick_node()
            self.start(now, action, node, units)
            self.delivery.start(action.id, node, units)
            for name, amount in self.running[action.id].units.items():
                left[name] -= amount
        if queue and left[self.key] > 0:
            fitting = (action.id for action in queue[:NOTED] if _fits(action.demand, left))
            self.passed_over.update(fitting)
        self._look = policy.look(now, left, running, queue)

    def start(self, now: int, action: Action, node: str, units: int) -> None:
        """Book a fresh grant; a provider also spends tokens on it."""
        self.queue.served(action, self.cost(action, units))
        self.hold(now, action, node, units)

    def cost(self, action: Action, units: int) -> int:
        """Return what an action of so many units counts among the jobs that share this place: units x ms."""
        return units * action.durations[rank_of(action, units)]

    def validate(self) -> None:
        """Raise AssertionError if the books do not add up."""
        for name in self.used:
            held = sum(hold.units.get(name, 0) for hold in self.running.values()) + self.reserved(name)
            assert self.used[name] == held, f"domain {self.name}: used {name}={self.used[name]}, but {held} is held"
        self.queue.validate(f"domain {self.name}")
        minimum = sum(action.sizes[0] for action in self.queue)
        assert self.queued_units == minimum, f"domain {self.name}: queued_units={self.queued_units}, not {minimum}"
        self.delivery.validate({name: hold.units[self.key] for name, hold in self.running.items()})
        both = {action.id for action in self.waiting()} & self.running.keys()
        assert not both, f"domain {self.name}: {sorted(both)} wait and run"

    def reserved(self, name: str) -> int:
        """Return how much of a resource is held by other things than actions."""
        return 0

    def _stale(self, now: int, *, always: bool) -> bool:
        """Whether a decision at `now` ms could differ from the last one. Most have nothing to do while nobody waits.

        Args:
            now: ms.
            always: this one has, while something runs.
        """
        if self.changed and (self.queue or (self.running and always)):
            return True
        return self._look is not None and now >= self._look

    def _unqueue(self, action: Action) -> None:
        self.queue.remove(action)
        self.queued_units -= action.sizes[0]
        self.passed_over.pop(action.id, None)

    def _charge(self, charge: Mapping[str, int], sign: int) -> None:
        for name, amount in charge.items():
            if name in self.used:
                self.used[name] += sign * amount

    def _resize(self, now: int, action: str, units: int) -> None:
        hold = self.running[action]
        self._charge({self.key: units - hold.units[self.key]}, 1)
        rank, left = hold.rank, hold.left(now)
        if hold.action is not None:
            rank = rank_of(hold.action, units)
            left = hold.left_by_size(now, hold.action)[rank]
        charge = {**hold.units, self.key: units}
        self.running[action] = hold._replace(end=now + left, units=charge, rank=rank, resized=now)

    def _check(self, action: Action, units: int, hold: Running | None, left: Mapping[str, int]) -> None:
        if hold is None:
            fits = units <= left[self.key] and _fits(action.demand, left)
        else:
            fits = bool(hold.gains) and units - hold.units[self.key] <= max(0, left[self.key])
        if units not in action.sizes or not fits:
            raise ValueError(
                f"the policy gave action {action.id} {units} units on {self.name}, where {in_words(left)} is free,"
                f" its sizes are {action.sizes} and it {'runs' if hold is not None else 'waits'}: this policy is broken"
            )
