"""The test's own books of a GPU pool with several nodes. They never read the core's books."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.core.events import Action, Decision, Grant, PageIn, Reject
from tests.support.promises import order_of


@dataclass
class Offer:
    """What a node announced."""

    devices: int
    services: tuple[str, ...]
    draining: bool = False

    def holds(self, action: Action) -> bool:
        return (action.service is None or action.service in self.services) and action.sizes[0] <= self.devices


@dataclass
class GpuLedger:
    """What must be true, kept independently.

    Args:
        policy: of the pool.
    """

    policy: str
    nodes: dict[str, Offer] = field(default_factory=dict)
    waiting: dict[str, Action] = field(default_factory=dict)
    running: dict[str, tuple[Action, str, int]] = field(default_factory=dict)

    def free(self, node: str) -> int:
        return self.nodes[node].devices - sum(units for _, home, units in self.running.values() if home == node)

    def open_to(self, action: Action) -> list[str]:
        """Return the nodes that might run it if they were empty."""
        return [name for name, offer in self.nodes.items() if offer.holds(action) and not offer.draining]

    def lose(self, node: str) -> None:
        self.nodes.pop(node, None)
        self.running = {name: row for name, row in self.running.items() if row[1] != node}

    def take(self, decisions: Iterable[Decision]) -> None:
        """Enter the answers to one event, and check each of them and what is left."""
        for decision in decisions:
            match decision:
                case Grant():
                    self._grant(decision)
                case Reject():
                    action = self.waiting.pop(decision.action)
                    able = [name for name, offer in self.nodes.items() if offer.holds(action)]
                    assert decision.outcome == "infeasible"
                    assert self.nodes
                    assert not able, f"{decision}, but {able} could run it"
                case PageIn():
                    offer = self.nodes[decision.node]
                    assert decision.service in offer.services
                    assert max(decision.devices) < offer.devices
                case _:
                    raise AssertionError(f"{decision} has no place in a GPU pool")
        self._nobody_waits_in_vain()

    def _grant(self, grant: Grant) -> None:
        action = self.waiting.pop(grant.action)  # a KeyError here is a grant to somebody who does not wait
        assert grant.units in action.sizes
        assert grant.node in self.open_to(action)
        assert grant.units <= self.free(grant.node), f"{grant}, but {self.free(grant.node)} devices are free there"
        self.running[grant.action] = (action, grant.node, grant.units)
        if self.policy == "min":
            passed = [one for one in self.waiting.values() if order_of(one) < order_of(action)]
            assert not [one.id for one in passed if grant.node in self.open_to(one)], f"{grant} overtakes them"

    def _nobody_waits_in_vain(self) -> None:
        for action in sorted(self.waiting.values(), key=order_of):
            fitting = [node for node in self.open_to(action) if self.free(node) >= action.sizes[0]]
            if self.policy == "residency":
                empty = [node for node in fitting if self.free(node) == self.nodes[node].devices]
                assert not empty or self.running, f"{action.id} waits although {empty} are idle, and nobody runs"
            elif self.policy == "min" or action is min(self.waiting.values(), key=order_of):
                assert not self._first_on(action, fitting), f"{action.id} is first there, fits {fitting} and waits"

    def _first_on(self, action: Action, nodes: list[str]) -> list[str]:
        """Return those of the nodes for which nobody waits who came before the action."""
        ahead = [one for one in self.waiting.values() if order_of(one) < order_of(action)]
        return [node for node in nodes if not any(node in self.open_to(one) for one in ahead)]
