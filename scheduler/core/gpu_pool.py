"""The GPU nodes: who joins and leaves, and what none of them could ever run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.core.attention import Attention
from scheduler.core.domain import Domain
from scheduler.core.events import Action, NodeJoined
from scheduler.core.gpu import GpuDomain
from scheduler.core.gpu_node import GPU, GpuNode
from scheduler.core.members import Members


class GpuPool(Members[GpuNode]):
    """The GPU nodes, in one domain.

    Args:
        attention: is told when something happens there.
    """

    def __init__(self, attention: Attention[Domain]) -> None:
        self._domain = GpuDomain(attention)
        super().__init__(GPU, (GPU,), self._domain.nodes)

    @property
    def queue(self) -> Sequence[Action]:
        """Who waits for any of its nodes, first to be served first."""
        return self._domain.queue.actions

    def domains(self) -> Iterable[GpuDomain]:
        """Return the one domain, if there is a node."""
        return [self._domain] if self.nodes else []

    def join(self, event: NodeJoined) -> None:
        """Add a node, or take over what one that is here offers now."""
        devices = event.capacity.get(GPU, 0)
        self._domain.join(event.node, devices, frozenset(event.services), event.draining)

    def lose(self, node: str) -> list[str]:
        """Remove a node, if it is here. Returns the actions that had devices there."""
        return self._domain.lose(node)

    def route(self, action: Action) -> GpuDomain | None:
        """Return the domain if a node that takes new actions could run this one."""
        return self._domain if self._domain.could_run(action) else None

    def domain_at(self, node: str, action: Action) -> GpuDomain | None:
        """Return the domain if the node is present."""
        return self._domain if node in self.nodes else None
