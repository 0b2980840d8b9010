"""The pool of GPU nodes: it knows what all of them are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice

from scheduler.core.attention import Attention
from scheduler.core.domain import GPU, Domain
from scheduler.core.events import Action, NodeJoined
from scheduler.core.gpu import GpuNode
from scheduler.core.layout import Layout
from scheduler.core.pool import NodePool

#: How many actions of other nodes a node that has room looks at.
LOOK_AT = 64


class GpuPool(NodePool[GpuNode]):
    """The GPU nodes and the layout of their services.

    Args:
        attention: is told when something happens on one.
    """

    def __init__(self, attention: Attention[Domain]) -> None:
        self._layout = Layout()
        super().__init__(GPU, (GPU,), partial(GpuNode, layout=self._layout), attention)

    def join(self, event: NodeJoined) -> None:
        """Add a node, or take over a new capacity of one that is here."""
        super().join(event)
        self._layout.nodes[event.node].welcome = frozenset(() if event.draining else event.services)

    def lose(self, node: str) -> list[str]:
        """Remove a node, if it is here. Returns the actions that held units there."""
        self._layout.nodes.pop(node, None)
        return super().lose(node)

    def route(self, action: Action) -> GpuNode | None:
        """Return the node that suits the action best, of those that could hold it, and count the action."""
        self._layout.note(action)
        return super().route(action)

    def better_off(self, node: GpuNode) -> Iterator[Action]:
        """Yield who queues on another node and would do better on `node`; the caller moves each before the next."""
        if node.draining:
            return
        queues = (((other, action) for action in other.queue) for other in self.nodes.values() if other is not node)
        for other, action in list(islice(chain.from_iterable(queues), LOOK_AT)):
            room = node.spare_units >= action.sizes[0] and node.could_run(action)
            if room and node.appeal(action) > other.appeal(action):
                yield action
