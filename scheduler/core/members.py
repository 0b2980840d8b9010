"""The nodes of one kind, and why none of them could ever run an action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from scheduler.core.domain import in_words
from scheduler.core.events import Action


class Member(Protocol):
    """What must be known of a node to say what it could never run."""

    name: str
    key: str
    services: frozenset[str]

    @property
    def capacity(self) -> Mapping[str, int]:
        """What it has, by resource."""

    def could_hold(self, demand: Mapping[str, int]) -> bool:
        """Whether the demand would fit if nobody held anything."""


M = TypeVar("M", bound=Member)


class Members(Generic[M]):
    """The nodes of one kind.

    Args:
        kind: "cpu" or "gpu".
        dimensions: the resources they share out.
        nodes: by name.
    """

    def __init__(self, kind: str, dimensions: tuple[str, ...], nodes: dict[str, M]) -> None:
        self.kind = kind
        self.nodes = nodes
        self._dimensions = dimensions

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
