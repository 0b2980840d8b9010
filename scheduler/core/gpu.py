"""GPU nodes: their devices are given per action."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.attention import Attention
from scheduler.core.domain import GPU, Domain, Order
from scheduler.core.events import Action, PageIn
from scheduler.core.layout import Layout
from scheduler.core.policy import Policy
from scheduler.core.warmth import Warmth


class GpuNode(Domain):
    """A node with gpu devices. Which of them an action gets, and what is paged out for it, is the node's business.

    Args:
        name: the node.
        capacity: what it announced; other resources than gpu are not shared out.
        layout: of its pool; it is entered there.
        attention: is told when something happens here.
    """

    kind = GPU

    def __init__(self, name: str, capacity: Mapping[str, int], attention: Attention[Domain], layout: Layout) -> None:
        super().__init__(name, GPU, {GPU: capacity.get(GPU, 0)}, attention)
        self._layout = layout
        self._warmth = layout.nodes[name] = Warmth(capacity.get(GPU, 0))
        self._spare: Mapping[str, int] = {}
        self._cold: list[PageIn] = []

    def resize(self, capacity: Mapping[str, int]) -> None:
        """Take over a new capacity; grants stay."""
        super().resize({GPU: capacity.get(GPU, 0)})
        self._warmth.resize(capacity.get(GPU, 0))

    def appeal(self, action: Action) -> tuple[int, int]:
        """Prefer a node where the service is warm on idle devices, then one that holds it and has room for more."""
        need, room = action.sizes[0], self.spare_units
        if action.service is None or room < need:
            return (0, room)
        idle = self._warmth.idle().get(action.service, 0) >= need
        return (idle + (self._warmth.holds(action.service) >= need), room)

    def decide(self, now: int, policy: Policy) -> list[Order]:
        """Do what the policy says. If it prefetches, say also which devices take a service in, for that and ahead."""
        stale = self._stale(now, policy)
        self._spare = self._layout.spare() if policy.prefetches else {}
        self._cold.clear()  # restored grants have their devices already
        orders = super().decide(now, policy)
        if not (policy.prefetches and stale):
            return orders
        ahead = [] if self.queue else self._layout.hints()
        return [*self._cold, *orders, *ahead]

    def hold(self, now: int, action: Action, node: str, units: int) -> None:
        """Enter in the books that an action has devices, and what they hold from now on."""
        super().hold(now, action, node, units)
        cold = self._warmth.occupy(action.id, action.service, units, self._spare)
        if cold and action.service is not None:
            self._cold.append(PageIn(self.name, action.service, tuple(cold)))

    def release(self, action: str) -> None:
        """Give back what an action holds. Raises KeyError if it holds nothing."""
        super().release(action)
        self._warmth.leave(action)

    def warm(self) -> Mapping[str, int]:
        """Return idle devices by the service they hold."""
        return self._warmth.idle()
