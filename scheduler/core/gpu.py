"""GPU nodes: their devices are given per action."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.domain import GPU, Domain
from scheduler.core.events import Action
from scheduler.core.warmth import Warmth


class GpuNode(Domain):
    """A node with gpu devices. Which of them an action gets, and what is paged out for it, is the node's business.

    Args:
        name: the node.
        capacity: what it announced; other resources than gpu are not shared out.
    """

    kind = GPU

    def __init__(self, name: str, capacity: Mapping[str, int]) -> None:
        super().__init__(name, GPU, {GPU: capacity.get(GPU, 0)})
        self._warmth = Warmth(capacity.get(GPU, 0))

    def resize(self, capacity: Mapping[str, int]) -> None:
        """Take over a new capacity; grants stay."""
        super().resize({GPU: capacity.get(GPU, 0)})
        self._warmth.resize(capacity.get(GPU, 0))

    def hold(self, now: int, action: Action, node: str, units: int) -> None:
        """Enter in the books that an action has devices, and what they hold from now on."""
        super().hold(now, action, node, units)
        self._warmth.occupy(action.id, action.service, units)

    def release(self, action: str) -> None:
        """Give back what an action holds. Raises KeyError if it holds nothing."""
        super().release(action)
        self._warmth.leave(action)

    def warm(self) -> Mapping[str, int]:
        """Return idle devices by the service they hold."""
        return self._warmth.idle()
