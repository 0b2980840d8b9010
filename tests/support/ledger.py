"""The test's own books of what an Admission was told and what it answered. They never read the core's books."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Literal

from scheduler.core.events import (
    Action,
    CloseSandbox,
    Decision,
    Grant,
    OpenSandbox,
    PageIn,
    RefuseSandbox,
    Reject,
    Resize,
)
from tests.support.promises import Provider, Sandbox, charge_of, order_of

NodeKind = Literal["cpu", "gpu", "api"]


@dataclass
class Ledger:
    """What must be true, kept independently."""

    at: int = 0
    capacity: dict[str, dict[str, int]] = field(default_factory=dict)
    kinds: dict[str, NodeKind] = field(default_factory=dict)
    offers: dict[str, set[str]] = field(default_factory=dict)
    providers: dict[str, Provider] = field(default_factory=dict)
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    waiting: dict[str, Action] = field(default_factory=dict)
    running: dict[str, tuple[Action, str, int]] = field(default_factory=dict)
    submitted: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    services: dict[str, tuple[str, ...]] = field(default_factory=dict)
    orders: dict[str, int] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    instant: bool = False
    policies: dict[str, str] = field(default_factory=lambda: {"cpu": "paper", "gpu": "paper", "api": "paper"})
    _evicted: dict[str, str] = field(default_factory=dict)

    # -- what is there

    def join(
        self,
        node: str,
        kind: NodeKind,
        capacity: dict[str, int],
        offers: Iterable[str] = (),
        services: Iterable[str] = (),
    ) -> None:
        self.kinds[node], self.capacity[node], self.offers[node] = kind, capacity, set(offers)
        self.services[node] = tuple(services)

    def end(self, name: str) -> None:
        """Enter that a running action has ended."""
        del self.running[name]
        self.ended.add(name)
        self.orders.pop(name, None)

    def answer(self, name: str, *, done: bool) -> int:
        """Let a node carry out its order for an action, or fail to. Returns the units that the action has now."""
        asked, before = self.orders.pop(name), self.before.pop(name)
        if not done:
            self.refused.add(name)
        self.running[name] = (*self.running[name][:2], asked if done else before)
        return self.running[name][2]

    def lose(self, node: str) -> None:
        for book in (self.kinds, self.capacity, self.offers, self.services):
            book.pop(node, None)
        gone = {name for name, (_, place, _) in self.running.items() if place == node}
        self.running = {name: row for name, row in self.running.items() if name not in gone}
        self.ended |= gone
        self.orders = {name: units for name, units in self.orders.items() if name not in gone}
        self.sandboxes = {name: sandbox for name, sandbox in self.sandboxes.items() if sandbox.node != node}

    def nodes(self, kind: str) -> list[str]:
        return [node for node, other in self.kinds.items() if other == kind]

    def free(self, node: str) -> dict[str, int]:
        left = dict(self.capacity[node])
        for action, place, units in self.running.values():
            if place == node:
                for name, amount in charge_of(action, units).items():
                    left[name] -= amount
        for sandbox in self.sandboxes.values():
            if sandbox.node == node:
                left["memory"] -= sandbox.memory
        return left

    def in_flight(self, key: str) -> int:
        return sum(units for action, _, units in self.running.values() if action.key == key)

    def impossible(self, action: Action) -> bool:
        """Whether no node that is present could ever hold the action, although its pool has one."""
        kind = action.key.split(":")[0]
        if action.trajectory is not None:
            home = self.sandboxes[action.trajectory]
            nodes = self.nodes("cpu") if home.node is None else [home.node]
        else:
            nodes = self.nodes(kind)
        if kind != "api":
            charge = {**charge_of(action, action.sizes[0]), action.key: action.sizes[0]}
            able = [
                n
                for n in nodes
                if all(self.capacity[n].get(name, 0) >= amount for name, amount in charge.items())
                and (action.service is None or action.service in self.services[n])
            ]
            return bool(nodes) and not able
        quota = self.providers[action.key].quota
        most = min(quota.concurrency, quota.concurrency if quota.per_second is None else quota.burst)
        return bool(nodes) and (action.sizes[0] > most or not any(action.key in self.offers[node] for node in nodes))

    # -- what was answered

    def take(self, decisions: list[Decision], *, at: int) -> None:
        """Enter the answers to one event, and check each of them and what is left."""
        self.at = at
        for decision in decisions:
            match decision:
                case Grant():
                    self._grant(decision)
                case Reject():
                    self._reject(decision)
                case Resize():
                    self._resize(decision)
                case PageIn():
                    assert decision.service in self.services[decision.node]
                    assert max(decision.devices) < self.capacity[decision.node]["gpu"]
                case OpenSandbox():
                    self._open(decision)
                case CloseSandbox():
                    raise AssertionError(f"{decision} closes a sandbox that nobody asked to close")
                case RefuseSandbox():
                    refused = self.sandboxes.pop(decision.trajectory)
                    assert refused.node is None
                    assert self.nodes("cpu")
                    assert all(self.capacity[node]["memory"] < refused.memory for node in self.nodes("cpu"))
        served = {self._domain_of(row.action): row for row in decisions if isinstance(row, Grant)}
        for row in served.values():
            self._nobody_was_overtaken(row.action)
        self._nobody_waits_in_vain(set(served))

    def _grant(self, grant: Grant) -> None:
        action = self.waiting.pop(grant.action)  # a KeyError here is a grant to somebody who does not wait
        assert grant.units in ((0,) if action.light else action.sizes)
        if action.key.startswith("api:"):
            provider = self.providers[action.key]
            assert action.key in self.offers[grant.node]
            least = min(self._calls_of(node) for node in self.nodes("api") if action.key in self.offers[node])
            assert self._calls_of(grant.node) == least, f"{grant} does not go to the node with the fewest calls"
            self.running[grant.action] = (action, grant.node, grant.units)
            assert self.in_flight(action.key) <= provider.quota.concurrency
            provider.start(self.at, grant.units)
            return
        assert self.kinds[grant.node] == action.key
        assert action.service is None or action.service in self.services[grant.node]
        if action.trajectory is not None:
            home = self.sandboxes[action.trajectory]
            assert (home.node, home.ready) == (grant.node, True)
        self.running[grant.action] = (action, grant.node, grant.units)
        left = self.free(grant.node)
        for name in charge_of(action, grant.units):
            assert left[name] >= 0 or (name == action.key and action.light), f"{grant} leaves {left} on the node"
        assert not action.light or self.lights(grant.node) <= 2 * self.capacity[grant.node]["cpu"]

    def lights(self, node: str) -> int:
        return sum(action.light for action, place, _ in self.running.values() if place == node)

    def _resize(self, order: Resize) -> None:
        action, node, units = self.running[order.action]
        assert (action.malleable, action.key, node, self.policies["cpu"]) == (True, "cpu", order.node, "live")
        assert order.units in set(action.sizes) - {units}
        assert order.action not in self.orders, f"{order} is given while another is in flight"
        assert order.action not in self.refused, f"{order}, but its node has refused one before"
        if not self.instant:
            self.orders[order.action], self.before[order.action] = order.units, units
        if self.instant or order.units > units:
            self.running[order.action] = (action, node, order.units)
        if order.units > units:
            assert self.free(node)["cpu"] >= 0, f"{order} leaves {self.free(node)} on the node"

    def _calls_of(self, node: str) -> int:
        return sum(place == node for _, place, _ in self.running.values())

    def _reject(self, reject: Reject) -> None:
        action = self.waiting.pop(reject.action)
        self.ended.add(reject.action)
        assert reject.action in reject.detail
        home = None if action.trajectory is None else self.sandboxes.get(action.trajectory)
        late = action.deadline is not None and action.deadline <= self.at
        justified = {
            "infeasible": lambda: (
                self.impossible(action) or (home is not None and action.demand.get("memory", 0) > home.memory)
            ),
            "no_capacity": lambda: late and not action.key.startswith("api:"),
            "quota_exhausted": lambda: late and action.key.startswith("api:"),
            "sandbox_lost": lambda: action.trajectory is not None and home is None,
            "trajectory_unknown": lambda: action.trajectory is not None and home is None,
        }
        assert justified[reject.outcome](), f"{reject} is not justified"

    def _open(self, order: OpenSandbox) -> None:
        unplaced = [name for name, sandbox in self.sandboxes.items() if sandbox.node is None]
        assert order.trajectory == unplaced[0], f"{order} overtakes {unplaced[0]}"
        most = max(self.free(node)["memory"] for node in self.nodes("cpu"))
        assert self.free(order.node)["memory"] == most
        self.sandboxes[order.trajectory].node = order.node
        assert self.free(order.node)["memory"] >= 0

    # -- what must not be left

    def next_wake(self) -> int | None:
        """Return when the next deadline is, or the next tokens for somebody who lacks nothing else."""
        moments = [action.deadline for action in self.waiting.values() if action.deadline is not None]
        for key, provider in self.providers.items():
            head = self._head_of_provider(key)
            if head is not None and provider.quota.per_second is not None:
                missing = head.sizes[0] - provider.level(self.at)
                if missing > 0 and head.sizes[0] <= provider.quota.concurrency - self.in_flight(key):
                    moments.append(self.at + ceil(missing / provider.rate))
        return min(moments, default=None)

    def _domain_of(self, running: str) -> str:
        action, node, _ = self.running[running]
        return action.key if action.key.startswith("api:") else node

    def _nobody_was_overtaken(self, granted: str) -> None:
        action = self.running[granted][0]
        policy = self.policies[action.key.split(":")[0]]
        if action.light or policy in ("residency", "wait_or_start") or (policy == "live" and not self.instant):
            return  # they reorder on purpose; `live` hands out units as nodes give them back
        for other in self._queue_of(self._domain_of(granted)):
            if other.light or (policy == "live" and self._may_be_passed(other, self._domain_of(granted))):
                continue  # light ones wait for slots of their own
            assert order_of(action) < order_of(other), f"{action.id} was granted before {other.id}"

    def _may_be_passed(self, other: Action, node: str) -> bool:
        """Whether policy "live" may leave an action waiting: it would keep its size, or only memory is missing.

        Memory also is missing if somebody before it, who may be left waiting in the end, was to have it.
        """
        ahead = [one for one in self._queue_of(node) if order_of(one) <= order_of(other) and not one.light]
        lacks = sum(one.demand.get("memory", 0) for one in ahead) > self.free(node)["memory"]
        return (len(other.sizes) > 1 and not other.malleable) or (lacks and self.at - other.arrival < 10_000)

    def _nobody_waits_in_vain(self, served: set[str]) -> None:
        for action in self.waiting.values():
            assert action.deadline is None or action.deadline > self.at, f"{action.id} waits past its deadline"
            pinned = action.trajectory is not None
            assert pinned or not self.impossible(action), f"{action.id} waits, but nobody could ever hold it"
        for node in [*self.nodes("cpu"), *self.nodes("gpu")]:
            head, free = self._head_of_node(node), self.free(node)
            if head and all(amount <= free[name] for name, amount in charge_of(head, head.sizes[0]).items()):
                self._must_be_evicted(head, node, served)
        for key, provider in self.providers.items():
            head, room = self._head_of_provider(key), provider.quota.concurrency - self.in_flight(key)
            tokens = room if provider.quota.per_second is None else provider.level(self.at)
            if head and head.sizes[0] <= min(room, tokens):
                self._must_be_evicted(head, key, served)

    def _must_be_evicted(self, head: Action, domain: str, served: set[str]) -> None:
        """Fail unless the first of a queue, which fits, was left waiting for the sake of one that runs now."""
        if domain in served:
            self._evicted[domain] = head.id
        busy = any(self._domain_of(name) == domain and units for name, (_, _, units) in self.running.items())
        assert busy, f"{head.id} is first on {domain}, fits and waits, and nobody runs there"
        if self.policies[head.key.split(":")[0]] not in ("paper", "min"):
            return  # the others may let it wait for something better
        assert self._evicted.get(domain) == head.id, f"{head.id} is first on {domain}, fits and was not looked at"

    def _head_of_node(self, node: str) -> Action | None:
        """Return who is certainly the first on a node: nobody before it could have been routed there."""
        head, kind = next((one for one in self._queue_of(node) if not one.light), None), self.kinds[node]
        if head is None or self.nodes(kind) == [node]:
            return head
        elsewhere = (one for one in self.waiting.values() if one.trajectory is None and one.key == kind)
        return None if any(order_of(one) < order_of(head) for one in elsewhere) else head

    def _head_of_provider(self, key: str) -> Action | None:
        offered = any(key in offers for offers in self.offers.values())
        return next(self._queue_of(key), None) if offered else None

    def _able(self, action: Action) -> list[str]:
        nodes = self.nodes(action.key)
        return nodes if len(nodes) != 1 or action.service in (None, *self.services[nodes[0]]) else []

    def _queue_of(self, domain: str) -> Iterator[Action]:
        """Yield, in order, those who certainly wait in this domain."""
        for action in sorted(self.waiting.values(), key=order_of):
            if action.trajectory is not None:
                home = self.sandboxes.get(action.trajectory)
                if home is not None and home.ready and home.node == domain:
                    yield action
            elif action.key == domain or self._able(action) == [domain]:
                yield action
