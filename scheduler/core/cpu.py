"""CPU nodes: their cores are given per action, their memory also per sandbox."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.domain import CPU, MEMORY, Domain, in_words
from scheduler.core.events import Action


class CpuNode(Domain):
    """A node with cpu units and memory in MiB. A sandbox's memory is reserved for its lifetime.

    Args:
        name: the node.
        capacity: what it announced; other resources than cpu and memory are not shared out.
    """

    def __init__(self, name: str, capacity: Mapping[str, int]) -> None:
        super().__init__(name, CPU, _dimensions(capacity))
        self.sandboxes: dict[str, int] = {}

    @property
    def free_memory(self) -> int:
        """MiB that no sandbox and no action holds; negative if the node shrank below them."""
        return self.capacity[MEMORY] - self.used[MEMORY]

    def resize(self, capacity: Mapping[str, int]) -> None:
        """Take over a new capacity; sandboxes and grants stay."""
        super().resize(_dimensions(capacity))

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
        self.changed = True

    def unreserve(self, trajectory: str) -> None:
        """Give a sandbox's memory back. Raises KeyError if the trajectory has none here."""
        self.used[MEMORY] -= self.sandboxes.pop(trajectory)
        self.changed = True

    def reserved(self, name: str) -> int:
        """Return the MiB that sandboxes hold."""
        return sum(self.sandboxes.values()) if name == MEMORY else 0


def _dimensions(capacity: Mapping[str, int]) -> dict[str, int]:
    return {name: capacity.get(name, 0) for name in (CPU, MEMORY)}
