"""GPU nodes: their devices are given per action."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.domain import GPU, Domain


class GpuNode(Domain):
    """A node with gpu devices. Which of them an action gets, and what is paged out for it, is the node's business.

    Args:
        name: the node.
        capacity: what it announced; other resources than gpu are not shared out.
    """

    def __init__(self, name: str, capacity: Mapping[str, int]) -> None:
        super().__init__(name, GPU, {GPU: capacity.get(GPU, 0)})

    def resize(self, capacity: Mapping[str, int]) -> None:
        """Take over a new capacity; grants stay."""
        super().resize({GPU: capacity.get(GPU, 0)})
