"""CPU nodes: their cores are given per action, their memory also per sandbox."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.attention import Attention
from scheduler.core.delivery import Delivery
from scheduler.core.domain import CPU, MEMORY, Domain, Order, in_words
from scheduler.core.events import Action
from scheduler.core.light import LightLane
from scheduler.core.policies import Policies


class CpuNode(Domain):
    """A node with cpu units and memory in MiB. A sandbox's memory is reserved for its lifetime.

    Light actions take a light slot and no cpu units.

    Args:
        name: the node.
        capacity: what it announced; other resources than cpu and memory are not shared out.
        attention: is told when something happens here.
        instant_resize: it carries out a Resize without delay.
    """

    kind = CPU

    def __init__(
        self, name: str, capacity: Mapping[str, int], attention: Attention[Domain], instant_resize: bool = False
    ) -> None:
        super().__init__(name, CPU, _dimensions(capacity), attention)
        self.delivery = Delivery(instant_resize)
        self.sandboxes: dict[str, int] = {}
        self.lane = LightLane(self.capacity[CPU])

    @property
    def free_memory(self) -> int:
        """MiB that no sandbox and no action holds; negative if the node shrank below them."""
        return self.capacity[MEMORY] - self.used[MEMORY]

    def resize(self, capacity: Mapping[str, int]) -> None:
        """Take over a new capacity; sandboxes and grants stay."""
        super().resize(_dimensions(capacity))
        self.lane.units = self.capacity[CPU]

    def enqueue(self, action: Action) -> None:
        """Let an action wait here; a light one in the lane."""
        if action.light:
            self.lane.queue.add(action)
            self.touch()
        else:
            super().enqueue(action)

    def waiting(self) -> list[Action]:
        """Return who queues here, light ones last."""
        return [*self.queue, *self.lane.queue]

    def hold(self, now: int, action: Action, node: str, units: int) -> None:
        """Enter in the books that an action has `units` of cpu, or a light slot."""
        super().hold(now, action, node, units)
        if action.light:
            self.lane.running.add(action.id)

    def release(self, action: str) -> None:
        """Give back what an action holds. Raises KeyError if it holds nothing."""
        super().release(action)
        self.lane.running.discard(action)

    def decide(self, now: int, policies: Policies) -> list[Order]:
        """Start light actions while there are slots, then do what the policy says."""
        if self.lane.queue:
            self._start_light(now)
        return super().decide(now, policies)

    def validate(self) -> None:
        """Raise AssertionError if the books do not add up."""
        super().validate()
        light = {name for name, hold in self.running.items() if hold.action is not None and hold.action.light}
        assert self.lane.running == light, f"node {self.name}: light slots {self.lane.running}, but {light} run"

    def refusal(self, action: Action) -> str | None:
        """Return why this node could never hold an action of a sandbox that lives here, or None."""
        if self.could_hold(action.demand):
            return None
        return (
            f"action {action.id} needs {in_words(action.demand)}, but node {self.name}, where its sandbox lives, has"
            f" {in_words(self.capacity)}: ask for less"
        )

    def reserve(self, trajectory: str, memory: int) -> None:
        """Hold `memory` MiB for a trajectory's sandbox, fitting or not. Raises ValueError if it has some already."""
        if trajectory in self.sandboxes:
            raise ValueError(f"trajectory {trajectory} has a sandbox on node {self.name} already")
        self.sandboxes[trajectory] = memory
        self.used[MEMORY] += memory
        self.touch()

    def unreserve(self, trajectory: str) -> None:
        """Give a sandbox's memory back. Raises KeyError if the trajectory has none here."""
        self.used[MEMORY] -= self.sandboxes.pop(trajectory)
        self.touch()

    def reserved(self, name: str) -> int:
        """Return the MiB that sandboxes hold."""
        return sum(self.sandboxes.values()) if name == MEMORY else 0

    def _start_light(self, now: int) -> None:
        for action in self.lane.queue.actions[: max(0, self.lane.free)]:
            if action.demand.get(MEMORY, 0) > self.free_memory:
                break
            self._unqueue(action)
            self.start(now, action, self.name, 0)
            self.delivery.start(action.id, self.name, 0)

    def _unqueue(self, action: Action) -> None:
        if action.light:
            self.lane.queue.remove(action)
        else:
            super()._unqueue(action)


def _dimensions(capacity: Mapping[str, int]) -> dict[str, int]:
    return {name: capacity.get(name, 0) for name in (CPU, MEMORY)}
