"""The policies of a deployment: one for each kind of domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler.core.events import Action
from scheduler.core.gpu_node import GpuNode
from scheduler.core.node_by_node import NodeByNode
from scheduler.core.policy import Policy, make_policy
from scheduler.core.residency import ResidencyPolicy


class GpuPolicy(Protocol):
    """Decides which waiting actions of the GPU pool start now, on which node and with how many devices."""

    @property
    def prefetches(self) -> bool:
        """Whether services are brought onto idle devices before anybody asks for them there."""

    def decide(
        self, now: int, nodes: Mapping[str, GpuNode], queue: Sequence[Action], spare: Mapping[str, int]
    ) -> list[tuple[Action, str, int]]:
        """Return (action, node, devices), to be carried out in that order.

        Each row must fit the room that the rows before it leave on its node. Whenever the head of the queue fits a
        node, something must run afterwards: nothing else would wake the pool up again.

        Args:
            now: ms.
            nodes: by name; not to be changed.
            queue: waiting actions, first to be served first.
            spare: devices that each service could do without; any number, if it is not named.
        """

    def look(self, now: int, nodes: Mapping[str, GpuNode], queue: Sequence[Action]) -> int | None:
        """Return the ms, after `now`, at which a decision could differ although nothing happened; None if never."""


@dataclass(frozen=True, slots=True)
class Policies:
    """Who decides where.

    Args:
        cpu: on each CPU node.
        gpu: in the GPU pool.
        api: at each API provider.
    """

    cpu: Policy
    gpu: GpuPolicy
    api: Policy


def make_gpu_policy(name: str, depth: int) -> GpuPolicy:
    """Return "residency", or a policy of `make_policy` that decides node by node.

    Raises:
        ValueError: there is none of that name, or `depth` is negative.
    """
    return ResidencyPolicy() if name == "residency" else NodeByNode(make_policy(name, depth))
