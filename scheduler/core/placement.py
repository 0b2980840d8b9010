"""Placement: in which domain's queue an action waits, and what it holds there once it is granted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from scheduler.core.api_pool import ApiPool, QuotaEvent
from scheduler.core.attention import Attention
from scheduler.core.cpu import CpuNode
from scheduler.core.domain import CPU, MEMORY, Domain
from scheduler.core.events import Action, NodeJoined, Reject, Resized, Restored
from scheduler.core.gpu_pool import GpuPool
from scheduler.core.members import foreign
from scheduler.core.pool import NodePool, Pool, kind_of
from scheduler.core.quota import QuotaChanged
from scheduler.core.trajectories import Trajectories, Trajectory
from scheduler.core.waiting import Waiter, WaitingRoom


class Placement:
    """The pools, the trajectories, who waits and who holds a grant.

    Args:
        instant_resize: nodes carry out a Resize without delay.
    """

    def __init__(self, instant_resize: bool = False) -> None:
        self.attention: Attention[Domain] = Attention()
        self.cpu = NodePool(CPU, (CPU, MEMORY), partial(CpuNode, instant_resize=instant_resize), self.attention)
        self.gpu = GpuPool(self.attention)
        self.api = ApiPool(self.attention)
        self._pools: dict[str, Pool] = {"cpu": self.cpu, "gpu": self.gpu, "api": self.api}
        self.trajectories = Trajectories(self.cpu)
        self.room = WaitingRoom()
        self.grants: dict[str, Domain] = {}
        self._restoring: dict[str, Restored] = {}
        self._shares: dict[str, int] = {}

    def domains(self) -> Iterator[Domain]:
        """Return all domains: CPU nodes in order of joining, the GPU pool, providers."""
        return chain(self.cpu.domains(), self.gpu.domains(), self.api.domains())

    def knows(self, action: str) -> bool:
        """Whether an action waits or holds a grant."""
        return action in self.room or action in self.grants or action in self._restoring

    def submit(self, action: Action) -> Reject | None:
        """Let an action, whose fields have been checked, wait where it belongs. Returns the refusal if it cannot."""
        if action.trajectory is not None:
            trajectory = self.trajectories.get(action.trajectory)
            if trajectory is None:
                why = f"action {action.id} names trajectory {action.trajectory}, which is not open: open it first"
                return Reject(action.id, "trajectory_unknown", why)
            if action.demand.get(MEMORY, 0) > trajectory.memory:
                why = (
                    f"action {action.id} needs {action.demand[MEMORY]} MiB, but the sandbox of trajectory"
                    f" {trajectory.id} has {trajectory.memory}: open it with more memory"
                )
                return Reject(action.id, "infeasible", why)
        return self._place(self.room.add(_charged(action)))

    def restore(self, event: Restored) -> None:
        """Enter a grant that exists already; it is kept aside until its node joins."""
        if not self.knows(event.action.id):
            self._restoring[event.action.id] = event
            self._settle()

    def release(self, action: str) -> None:
        """Give back what an action holds. One that holds nothing is ignored."""
        self._restoring.pop(action, None)
        domain = self.grants.pop(action, None)
        if domain is not None:
            domain.release(action)

    def resized(self, event: Resized) -> None:
        """Take in what an action holds now. One that holds nothing is ignored."""
        if event.action in self._restoring:
            self._restoring[event.action] = replace(self._restoring[event.action], units=event.units)
        elif event.action in self.grants:
            self.grants[event.action].confirm(event.at, event.action, event.units)

    def seat(self, trajectory: str) -> list[Reject]:
        """Queue everybody who waits for a sandbox that is ready. Returns the refusals."""
        return self._place_all(self.room.of(trajectory))

    def abandon(self, trajectory: str, reason: str) -> list[Reject]:
        """Refuse everybody who waits for the sandbox of a trajectory that is gone."""
        waiters = self.room.of(trajectory)
        for waiter in waiters:
            self.room.remove(waiter.action.id)
        why = f"the sandbox of trajectory {trajectory} is gone: {reason}"
        return [Reject(waiter.action.id, "sandbox_lost", f"action {waiter.action.id}: {why}") for waiter in waiters]

    def join(self, event: NodeJoined) -> list[Reject]:
        """Take in a node with what lives there already, or a new capacity of it. Returns the refusals."""
        refusals: list[Reject] = []
        if any(event.node in pool.nodes for kind, pool in self._pools.items() if kind != event.kind):
            refusals += self.lose(event.node)
        self._pools[event.kind].join(event)
        for domain in self._pools[event.kind].domains():
            domain.queue.share(self._shares)
        here = self.trajectories.node_joined(event.node)
        self._settle()
        refusals += self._reroute(event.kind)
        return refusals + [refusal for trajectory in here for refusal in self.seat(trajectory)]

    def lose(self, node: str, kept: frozenset[str] = frozenset()) -> list[Reject]:
        """Forget a node, its grants and its sandboxes but those `kept`, which wait for it. Returns the refusals."""
        kinds = [kind for kind, pool in self._pools.items() if node in pool.nodes]
        for kind in kinds:
            for action in self._pools[kind].lose(node):
                del self.grants[action]
        self._restoring = {name: event for name, event in self._restoring.items() if event.node != node}
        refusals: list[Reject] = []
        for trajectory in self.trajectories.node_lost(node, kept):
            refusals += self.abandon(trajectory, f"node {node} died")
        for waiter in chain.from_iterable(map(self.room.of, kept)):
            waiter.move(None)
        return refusals + [refusal for kind in kinds for refusal in self._reroute(kind)]

    def weigh(self, job: str, weight: int | None) -> None:
        """Let a job share by a weight with others; None lets it go."""
        self._shares.pop(job, None)
        if weight is not None:
            self._shares[job] = weight
        for domain in self.domains():
            domain.queue.share(self._shares)
            domain.touch()

    def quota(self, event: QuotaEvent) -> list[Reject]:
        """Take in what happened to a quota. Returns the refusals."""
        self.api.take_in(event)
        return self._reroute("api") if isinstance(event, QuotaChanged) else []

    def validate(self) -> None:
        """Raise AssertionError, naming the book, if the books do not add up."""
        for domain in self.domains():
            domain.validate()
        self.api.validate()
        self.trajectories.validate()
        seated = {waiter.action.id: waiter.domain.name for waiter in self.room if waiter.domain is not None}
        queued = {
            action.id: domain.name for domain in self.domains() for action in [*domain.held_back(), *domain.waiting()]
        }
        assert seated == queued, f"waiting room: {seated.items() ^ queued.items()} are in one book only"
        granted = {action: domain.name for action, domain in self.grants.items()}
        running = {action: domain.name for domain in self.domains() for action in domain.granted()}
        assert granted == running, f"grants: {granted.items() ^ running.items()} are in one book only"
        both = [waiter.action.id for waiter in self.room if waiter.action.id in self.grants]
        assert not both, f"waiting room: {both} hold a grant already"

    def _reroute(self, kind: str) -> list[Reject]:
        waiters = self.room.unpinned(kind)
        for waiter in waiters:
            waiter.move(None)
        return self._place_all(waiters)

    def _place_all(self, waiters: Iterable[Waiter]) -> list[Reject]:
        refusals = (self._place(waiter) for waiter in waiters)
        return [refusal for refusal in refusals if refusal is not None]

    def _place(self, waiter: Waiter) -> Reject | None:
        action = waiter.action
        if action.trajectory is None:
            why, domain = self._anywhere(action)
        else:
            why, domain = self._in_sandbox(action, self.trajectories.get(action.trajectory))
        if why is not None:
            self.room.remove(action.id)
            return Reject(action.id, "infeasible", why)
        waiter.move(domain)
        return None

    def _anywhere(self, action: Action) -> tuple[str | None, Domain | None]:
        kind = kind_of(action)
        if kind is None:
            return f"action {action.id} asks for {action.key} alone: ask for cpu, gpu or an API", None
        domain = self._pools[kind].route(action)
        return None if domain is not None else self._pools[kind].refusal(action), domain

    def _in_sandbox(self, action: Action, trajectory: Trajectory | None) -> tuple[str | None, Domain | None]:
        if trajectory is None:
            raise AssertionError(f"waiting room: action {action.id} waits for a trajectory that is closed")
        if action.key != CPU:
            return f"action {action.id} runs in a sandbox but asks for {action.key}: ask for cpu", None
        alien = foreign(action, (CPU,), "a sandbox beside its own memory")
        if alien is not None or trajectory.node is None:
            return alien or self.cpu.refusal(action), None
        node = self.cpu.nodes.get(trajectory.node)
        if node is None:
            return None, None
        return node.refusal(action), node if trajectory.ready else None

    def _settle(self) -> None:
        for name, event in list(self._restoring.items()):
            kind = kind_of(event.action)
            domain = self._pools[kind].domain_at(event.node, event.action) if kind is not None else None
            if domain is not None:
                domain.restore(event.at, _charged(event.action), event.node, event.units, event.lane)
                self.grants[name] = domain
                del self._restoring[name]


def _charged(action: Action) -> Action:
    """Return the action with the demand it is charged: a sandbox's memory is reserved for its lifetime already."""
    if action.trajectory is None or MEMORY not in action.demand or action.key == MEMORY:
        return action
    return replace(action, demand={name: amount for name, amount in action.demand.items() if name != MEMORY})
