"""The GPU pool as one domain: an action is bound to a node when it is granted, not before."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.attention import Attention
from scheduler.core.domain import NOTED, Domain, Order
from scheduler.core.events import Action, PageIn
from scheduler.core.gpu_node import GPU, GpuNode
from scheduler.core.layout import Layout
from scheduler.core.policies import GpuPolicy, Policies


class GpuDomain(Domain):
    """All GPU nodes with one queue. An action gets devices of one node, and never other ones while it runs.

    Args:
        attention: is told when something happens here.
    """

    kind = GPU

    def __init__(self, attention: Attention[Domain]) -> None:
        super().__init__("gpu pool", GPU, {GPU: 0}, attention)
        self.nodes: dict[str, GpuNode] = {}
        self._layout = Layout(self.nodes)
        self._homes: dict[str, GpuNode] = {}
        self._spare: Mapping[str, int] = {}
        self._cold: list[PageIn] = []

    def join(self, name: str, devices: int, services: frozenset[str], draining: bool) -> None:
        """Add a node, or take over what one that is here offers now; grants stay."""
        node = self.nodes.setdefault(name, GpuNode(name, 0))
        node.devices.resize(devices)
        node.services, node.draining = services, draining
        self._recount()

    def lose(self, name: str) -> list[str]:
        """Remove a node, if it is here. Returns the actions that had devices there; they hold nothing any more."""
        if name not in self.nodes:
            return []
        lost = [action for action in self.nodes[name].running if action not in self.delivery.held_back]
        for action in lost:
            self.release(action)
        del self.nodes[name]
        self._recount()
        return lost

    def could_run(self, action: Action) -> bool:
        """Whether the action could start on some node that takes new ones, if nobody held anything."""
        return any(node.could_run(action) for node in self.nodes.values() if not node.draining)

    def free(self, now: int) -> dict[str, int]:
        """Return the devices that may be given to somebody; no action gets them from several nodes."""
        return {GPU: sum(node.room for node in self.nodes.values())}

    def fits(self, now: int, action: Action) -> bool:
        """Whether one node has enough devices for the action at `now` ms."""
        need = action.sizes[0]
        return any(node.room >= need and node.could_run(action) for node in self.nodes.values())

    def enqueue(self, action: Action) -> None:
        """Let an action wait here."""
        super().enqueue(action)
        self._layout.note(action)

    def decide(self, now: int, policies: Policies) -> list[Order]:
        """Do what the policy says. If it prefetches, say also which devices take a service in, for that and ahead."""
        policy = policies.gpu
        stale, self.changed = self._stale(now, always=policy.prefetches), False
        if stale:
            self._plan(now, policy)
        ahead = self._layout.hints() if stale and policy.prefetches and not self.queue else []
        cold, self._cold = self._cold, []
        return [*cold, *self.delivery.ready(self.used[GPU]), *ahead]  # nothing is resized, so nothing is held back

    def hold(self, now: int, action: Action, node: str, units: int) -> None:
        """Enter in the books that an action has devices of a node, and what those hold from now on."""
        self._enter(now, action, self.nodes[node], units)

    def release(self, action: str) -> None:
        """Give back what an action holds. Raises KeyError if it holds nothing."""
        super().release(action)
        self._homes.pop(action).release(action)

    def validate(self) -> None:
        """Raise AssertionError if the books do not add up."""
        super().validate()
        for node in self.nodes.values():
            node.validate()
        here = {action: node.name for node in self.nodes.values() for action in node.running}
        homes = {action: node.name for action, node in self._homes.items()}
        assert here == homes, f"domain {self.name}: {here.items() ^ homes.items()} are in one book only"
        assert homes.keys() == self.running.keys(), f"domain {self.name}: who runs has no node, or the other way round"

    def _plan(self, now: int, policy: GpuPolicy) -> None:
        self._spare = self._layout.spare() if policy.prefetches else {}
        for action, node, units in policy.decide(now, self.nodes, self.queue.actions, self._spare):
            cold = self._grant(now, action, self.nodes[node], units)
            if cold and action.service is not None and policy.prefetches:
                self._cold.append(PageIn(node, action.service, tuple(cold)))
        fitting = (action.id for action in self.queue.actions[:NOTED] if self.fits(now, action))
        self.passed_over.update(fitting)
        self._look = policy.look(now, self.nodes, self.queue.actions)

    def _grant(self, now: int, action: Action, node: GpuNode, units: int) -> list[int]:
        if units not in action.sizes or units > node.room or not node.could_run(action):
            raise ValueError(
                f"the policy gave action {action.id} {units} devices of {node.name}, which has room for {node.room} and"
                f" services {sorted(node.services)}; its sizes are {action.sizes}, its service is {action.service}:"
                f" this policy is broken"
            )
        self._unqueue(action)
        self.queue.served(action, self.cost(action, units))
        self.delivery.start(action.id, node.name, units)
        return self._enter(now, action, node, units)

    def _enter(self, now: int, action: Action, node: GpuNode, units: int) -> list[int]:
        """Enter a grant in the books of pool and node. Returns the devices that have to take its service in."""
        super().hold(now, action, node.name, units)
        self._homes[action.id] = node
        return node.hold(action, self.running[action.id], self._spare)

    def _recount(self) -> None:
        self.resize({GPU: sum(len(node.devices) for node in self.nodes.values())})
