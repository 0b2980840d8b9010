"""What a status page shows: who waits where, and who holds what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.completion import walk
from scheduler.core.domain import Domain
from scheduler.core.events import Action
from scheduler.core.fcfs import order
from scheduler.core.gpu import GpuDomain
from scheduler.core.gpu_node import GPU, GpuNode
from scheduler.core.waiting import Waiter

#: Waiting actions that a node is told about.
LOOK_AHEAD = 64


@dataclass(frozen=True, slots=True)
class WaitingAction:
    """One action that waits.

    Args:
        action: its id.
        domain: where it queues: the CPU node, "gpu pool" or "api:NAME"; None while its sandbox is not ready or its
            pool has no node.
        position: its place there, or among those that queue nowhere; 1 is next.
    """

    action: str
    domain: str | None
    position: int


@dataclass(frozen=True, slots=True)
class Holdings:
    """What one place has and has given.

    Args:
        domain: the node, "gpu pool" (it has nothing of its own, and who waits for any GPU node waits there) or
            "api:NAME".
        capacity: units and MiB by resource.
        granted: what actions and sandboxes hold of it.
        running: how many actions hold a grant there.
        waiting: how many queue there.
    """

    domain: str
    capacity: Mapping[str, int]
    granted: Mapping[str, int]
    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """When one waiting action is expected to start and end, at its smallest size and in the order of its queue.

    Args:
        action: its id.
        start: ms; None if what runs leaves it too little.
        end: ms.
        act: ACT, ms.
    """

    action: str
    start: int | None
    end: int | None
    act: int | None


def predictions(domain: Domain, now: int) -> list[Prediction]:
    """Return the predictions of everybody who queues in a domain, first to be served first."""
    known = list(_foreseen(domain, now))
    return known + [Prediction(action.id, None, None, None) for action in domain.queue.actions[len(known) :]]


def prediction(domain: Domain, now: int, action: str) -> Prediction | None:
    """Return the prediction of one action that queues in a domain; None if nothing can be said of it."""
    return next((row for row in _foreseen(domain, now) if row.action == action), None)


def _foreseen(domain: Domain, now: int) -> Iterator[Prediction]:
    key, queue = domain.key, domain.queue.actions
    busy = [(now + hold.left(now), hold.units[key]) for hold in domain.running.values() if hold.units.get(key)]
    for action, (start, end) in zip(queue, walk(now, domain.free(now)[key], busy, queue), strict=False):
        yield Prediction(action.id, start, end, end - action.arrival)


def waiting_actions(domains: Iterable[Domain], room: Iterable[Waiter]) -> list[WaitingAction]:
    """Return everybody who waits, domain by domain, then those who queue nowhere."""
    rows = [
        WaitingAction(action.id, domain.name, position)
        for domain in domains
        for position, action in enumerate([*domain.held_back(), *domain.waiting()], 1)
    ]
    aside = sorted((waiter.action for waiter in room if waiter.domain is None), key=order)
    return rows + [WaitingAction(action.id, None, position) for position, action in enumerate(aside, 1)]


def next_services(node: GpuNode, queue: Sequence[Action]) -> tuple[str, ...]:
    """Return the services that those of a queue ask for who could run on a node, each once, in the order of turns."""
    asked = (action.service for action in queue[:LOOK_AHEAD] if node.could_run(action))
    return tuple(dict.fromkeys(service for service in asked if service is not None))


def holdings(domain: Domain) -> list[Holdings]:
    """Return the figures of one domain: of the GPU pool, node by node, then who waits for any of them."""
    waiting = len(domain.held_back()) + len(domain.waiting())
    if not isinstance(domain, GpuDomain):
        return [Holdings(domain.name, dict(domain.capacity), dict(domain.used), len(domain.granted()), waiting)]
    nodes = domain.nodes.values()
    rows = [Holdings(node.name, node.capacity, {GPU: node.used}, len(node.running), 0) for node in nodes]
    return [*rows, Holdings(domain.name, {GPU: 0}, {GPU: 0}, 0, waiting)] if waiting else rows
