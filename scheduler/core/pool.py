"""A pool: where the actions of one kind may wait."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from scheduler.core.attention import Attention
from scheduler.core.domain import API_PREFIX, CPU, Domain
from scheduler.core.events import Action, NodeJoined
from scheduler.core.gpu_node import GPU
from scheduler.core.members import Members

D = TypeVar("D", bound=Domain)
D_co = TypeVar("D_co", bound=Domain, covariant=True)


class Pool(Protocol):
    """What placement needs of any pool."""

    @property
    def nodes(self) -> Collection[str]:
        """The names of the nodes that are present."""

    def domains(self) -> Iterable[Domain]:
        """Return its domains, in order of becoming known."""

    def join(self, event: NodeJoined) -> None:
        """Add a node, or take over what a node that is here offers now."""

    def lose(self, node: str) -> list[str]:
        """Remove a node, if it is here. Returns the actions that held something there; they hold nothing any more."""

    def refusal(self, action: Action) -> str | None:
        """Return why no node that is present could ever run the action; None if one could, or none is present."""

    def route(self, action: Action) -> Domain | None:
        """Return the domain in which the action should queue, or None if no node that is present could hold it."""

    def domain_at(self, node: str, action: Action) -> Domain | None:
        """Return the domain that is charged for the action if it runs on `node`, or None if that is not known yet."""


class MakeNode(Protocol[D_co]):
    """Builds the domain of a node that joined."""

    def __call__(self, name: str, capacity: Mapping[str, int], attention: Attention[Domain]) -> D_co:
        """Return a node with this capacity and nobody on it."""


def kind_of(action: Action) -> str | None:
    """Return the pool an action belongs to: "cpu", "gpu", "api", or None if no pool has its key resource."""
    if action.key.startswith(API_PREFIX):
        return "api"
    return action.key if action.key in (CPU, GPU) else None


class NodePool(Members[D]):
    """Nodes each of which is a domain.

    Args:
        kind: "cpu".
        dimensions: the resources its nodes share out.
        make: builds a node.
        attention: is told when something happens on one.
    """

    def __init__(self, kind: str, dimensions: tuple[str, ...], make: MakeNode[D], attention: Attention[Domain]) -> None:
        super().__init__(kind, dimensions, {})
        self._make = make
        self._attention = attention

    def domains(self) -> Iterable[D]:
        """Return its nodes, in order of joining."""
        return self.nodes.values()

    def join(self, event: NodeJoined) -> None:
        """Add a node, or take over a new capacity of one that is here."""
        if event.node in self.nodes:
            self.nodes[event.node].resize(event.capacity)
        else:
            self.nodes[event.node] = self._make(event.node, event.capacity, self._attention)
        self.nodes[event.node].services = frozenset(event.services)
        self.nodes[event.node].draining = event.draining

    def lose(self, node: str) -> list[str]:
        """Remove a node, if it is here. Returns the actions that held units there."""
        lost = self.nodes.pop(node, None)
        if lost is None:
            return []
        self._attention.forget(lost)
        return lost.granted()

    def domain_at(self, node: str, action: Action) -> D | None:
        """Return the node if it is present."""
        return self.nodes.get(node)

    def route(self, action: Action) -> D | None:
        """Return the node with most units to spare, of those that could hold the action."""
        able = (node for node in self.nodes.values() if not node.draining and node.could_run(action))
        return max(able, key=lambda node: node.spare_units, default=None)
