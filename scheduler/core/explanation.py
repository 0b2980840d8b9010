"""Why an action waits: where it is, what it needs, what is free, and when it is expected to start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.core.domain import API_PREFIX, CPU, Domain, in_words
from scheduler.core.events import Action
from scheduler.core.fcfs import order
from scheduler.core.placement import Placement
from scheduler.core.pool import kind_of
from scheduler.core.views import prediction

#: When those behind so many others will start is not worked out: it would hold everybody up.
FORESEEN = 10_000


@dataclass(frozen=True, slots=True)
class Explanation:
    """One waiting action.

    Args:
        action: its id.
        domain: where it queues: the CPU node, "gpu pool" or "api:NAME"; None while its sandbox is not ready or its
            pool has no node.
        position: its place there, or among those that queue nowhere; 1 is next.
        demand: the least it needs.
        free: what nobody holds, by place where it could run.
        passed_over: decisions that left it waiting although it fitted: it was evicted, or waits for something better.
        start: ms from now until it is expected to start, if nobody else comes; None if that cannot be said.
        act: expected ACT, ms.
        reason: in words.
    """

    action: str
    domain: str | None
    position: int
    demand: Mapping[str, int]
    reason: str
    free: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    passed_over: int = 0
    start: int | None = None
    act: int | None = None


def explain(places: Placement, now: int, name: str) -> Explanation | None:
    """Return why an action waits at `now` ms; None if it does not."""
    if name not in places.room:
        return None
    waiter = places.room.waiter(name)
    action, domain = waiter.action, waiter.domain
    if domain is None:
        aside = (other.action for other in places.room if other.domain is None)
        position = 1 + sum(order(other) < order(action) for other in aside)
        return Explanation(name, None, position, action.demand, _without_place(places, action), _free(places, action))
    seats = [*domain.held_back(), *domain.waiting()]
    position = 1 + next(place for place, other in enumerate(seats) if other.id == name)
    expected = prediction(domain, now, name) if position <= FORESEEN else None
    start = None if expected is None or expected.start is None else max(0, expected.start - now)
    return Explanation(
        action=name,
        domain=domain.name,
        position=position,
        demand=action.demand,
        free=_free(places, action, now),
        passed_over=domain.passed_over[name],
        start=start,
        act=None if expected is None else expected.act,
        reason=_in_queue(domain, action, now, position),
    )


def _free(places: Placement, action: Action, now: int = 0) -> dict[str, dict[str, int]]:
    kind = kind_of(action)
    able = [domain for domain in places.domains() if domain.kind == kind and domain.could_run(action)]
    if action.trajectory is not None:
        trajectory = places.trajectories.get(action.trajectory)
        able = [domain for domain in able if trajectory is not None and trajectory.node == domain.name]
    return {domain.name: domain.free(now) for domain in able}


def _without_place(places: Placement, action: Action) -> str:
    if action.trajectory is None:
        return f"nothing that is present could run it: it waits for a node with {in_words(action.demand)}"
    trajectory = places.trajectories.get(action.trajectory)
    if trajectory is None:
        return f"its trajectory {action.trajectory} is not open"
    if trajectory.node is None:
        where = "any node" if trajectory.home is None else f"node {trajectory.home}"
        return f"the sandbox of trajectory {trajectory.id} waits for {trajectory.memory} MiB on {where}"
    if trajectory.node not in places.cpu.nodes:
        return f"node {trajectory.node}, where the sandbox of trajectory {trajectory.id} lives, is not present"
    return f"the sandbox of trajectory {trajectory.id} is being made on node {trajectory.node}"


def _in_queue(domain: Domain, action: Action, now: int, position: int) -> str:
    if action.id in domain.delivery.held_back:
        units = domain.running[action.id].units[domain.key]
        return f"{units} units of {domain.name} are meant for it as soon as others have given them back"
    free = domain.free(now)
    lacking = {name: amount - free.get(name, 0) for name, amount in action.demand.items()}
    missing = {name: amount for name, amount in lacking.items() if amount > 0}
    if action.light and action.key == CPU:
        return f"all light slots of {domain.name} are taken"
    if missing:
        wait = " or for tokens" if domain.key.startswith(API_PREFIX) else ""
        return f"{domain.name} lacks {in_words(missing)} for it; it waits for actions there to end{wait}"
    if not domain.fits(now, action):
        return f"{domain.name} has {in_words(free)} free, but no node of it enough; it waits for actions there to end"
    if position > 1:
        return f"it would fit {domain.name}, but {position - 1} others are before it"
    return f"it fits {domain.name}, but the policy expects less waiting in all if it starts a little later"
