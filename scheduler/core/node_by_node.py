"""A policy of single nodes, applied to the GPU pool: the queue is dealt out to the nodes anew at each decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.events import Action
from scheduler.core.gpu_node import GPU, GpuNode
from scheduler.core.policy import Policy

#: How many waiting actions one decision looks at.
LOOK_AT = 1_024


@dataclass(frozen=True, slots=True)
class NodeByNode:
    """Lets each node start some of the actions that are dealt to it.

    Args:
        policy: decides on a node.
    """

    policy: Policy
    prefetches = False

    def decide(
        self, now: int, nodes: Mapping[str, GpuNode], queue: Sequence[Action], spare: Mapping[str, int]
    ) -> list[tuple[Action, str, int]]:
        """Return the actions to start now with their nodes and devices; see `GpuPolicy`."""
        started: dict[str, tuple[Action, str, int]] = {}
        for name, dealt in _deal(nodes, queue[:LOOK_AT]).items():
            node = nodes[name]
            own = [action for action in dealt if action.id not in started]
            for action, units in self.policy.decide(now, {GPU: node.room}, node.running.values(), own):
                started[action.id] = (action, name, units)
        return list(started.values())

    def look(self, now: int, nodes: Mapping[str, GpuNode], queue: Sequence[Action]) -> int | None:
        """Return the first moment at which a decision on some node could differ."""
        moments = (self.policy.look(now, {GPU: node.room}, node.running.values(), queue) for node in nodes.values())
        return min((at for at in moments if at is not None), default=None)


def _deal(nodes: Mapping[str, GpuNode], queue: Sequence[Action]) -> dict[str, list[Action]]:
    """Return who is to be served where, first come, first served.

    An action goes to the node with room where its service is warm, else to the one with most room. One that finds no
    room queues on all nodes that could run it, and nobody behind it starts there.
    """
    room = {name: node.room for name, node in nodes.items() if not node.draining}
    dealt: dict[str, list[Action]] = {name: [] for name in room}
    warm = {name: nodes[name].devices.idle() for name in room}
    for action in queue:
        need, service = action.sizes[0], action.service or ""
        able = [name for name in room if nodes[name].could_run(action)]
        fitting = [name for name in able if room[name] >= need]
        if fitting:
            best = max(fitting, key=lambda name: (warm[name].get(service, 0) >= need, room[name]))
            dealt[best].append(action)
            room[best] -= need
            warm[best][service] = warm[best].get(service, 0) - need
        else:
            for name in able:
                dealt[name].append(action)
                room[name] = 0
    return dealt
