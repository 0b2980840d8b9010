"""A pool: all nodes of one kind, and the choice between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from scheduler.core.attention import Attention
from scheduler.core.domain import API_PREFIX, CPU, GPU, Domain, in_words
from scheduler.core.events import Action, NodeJoined

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


class NodePool(Generic[D]):
    """The CPU nodes, or the GPU nodes.

    Args:
        kind: "cpu" or "gpu".
        dimensions: the resources its nodes share out.
        make: builds a node.
        attention: is told when something happens on one.
    """

    def __init__(self, kind: str, dimensions: tuple[str, ...], make: MakeNode[D], attention: Attention[Domain]) -> None:
        self.kind = kind
        self.nodes: dict[str, D] = {}
        self._dimensions = dimensions
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

    def refusal(self, action: Action) -> str | None:
        """Return why no node of this pool that is present could ever hold the action, or None."""
        return (
            foreign(action, self._dimensions, f"a {self.kind} node")
            or self._without_service(action)
            or self.too_big(f"action {action.id}", action.demand, action.service)
        )

    def too_big(self, who: str, demand: Mapping[str, int], service: str | None = None) -> str | None:
        """Return why nobody (who holds the service) could ever hold the demand.

        None if somebody could, or no node is present (yet).
        """
        nodes = [node for node in self.nodes.values() if service is None or service in node.services]
        if not nodes or any(node.could_hold(demand) for node in nodes):
            return None
        largest = max(nodes, key=lambda node: (node.capacity[node.key], sum(node.capacity.values())))
        return (
            f"{who} needs {in_words(demand)}, and no {self.kind} node has that: the largest, {largest.name},"
            f" has {in_words(largest.capacity)}; ask for less or add a larger node"
        )

    def route(self, action: Action) -> D | None:
        """Return the node that suits the action best, of those that could hold it; see `Domain.appeal`."""
        able = (node for node in self.nodes.values() if not node.draining and node.could_run(action))
        return max(able, key=lambda node: node.appeal(action), default=None)

    def _without_service(self, action: Action) -> str | None:
        if not self.nodes or action.service is None:
            return None
        held = set[str]().union(*(node.services for node in self.nodes.values()))
        if action.service in held:
            return None
        known = ", ".join(sorted(held)) or "none"
        return (
            f"action {action.id} calls service {action.service}, which no {self.kind} node holds; the services there"
            f" are: {known}"
        )


def foreign(action: Action, dimensions: Iterable[str], place: str) -> str | None:
    """Return why an action cannot run at a place that shares out only `dimensions`, or None if it can."""
    known = list(dimensions)
    if action.demand.keys() <= set(known):
        return None
    return (
        f"action {action.id} needs {in_words(action.demand)}, but {place} shares out only {' and '.join(known)}:"
        f" split it into one action per pool"
    )
