"""Admission: the scheduler as a state machine. Events in, decisions out, no clock and no I/O.

Invariants:
- an action holds at most one grant at a time, and never while it waits;
- what is granted in a domain never exceeds its capacity, unless the capacity shrank or was restored too small;
- whoever waits in a domain is served by the policy in the order of `scheduler.core.fcfs.order`;
- the same events give the same decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from scheduler.core.api_pool import QuotaEvent
from scheduler.core.domain import API_PREFIX, in_words
from scheduler.core.events import (
    Cancelled,
    CloseSandbox,
    Decision,
    Event,
    Grant,
    JobWeight,
    NodeJoined,
    NodeLost,
    OpenSandbox,
    RefuseSandbox,
    Reject,
    Released,
    Resized,
    Restored,
    SandboxReady,
    Submitted,
    Tick,
    TrajectoryClosed,
    TrajectoryOpened,
    TrajectoryRestored,
)
from scheduler.core.explanation import Explanation, explain
from scheduler.core.placement import Placement
from scheduler.core.policies import Policies, make_gpu_policy
from scheduler.core.policy import make_policy
from scheduler.core.quota import CallSent, LaneState, ProviderClosed, QuotaChanged, QuotaSpent
from scheduler.core.rigid import EQUAL
from scheduler.core.views import (
    Holdings,
    Prediction,
    WaitingAction,
    holdings,
    next_services,
    predictions,
    waiting_actions,
)
from scheduler.core.waiting import Waiter, check

TrajectoryEvent = TrajectoryOpened | TrajectoryRestored | SandboxReady | TrajectoryClosed


class Admission:
    """Gates and sizes actions.

    Args:
        policy: which policy decides on CPU nodes; see `scheduler.core.policy.POLICIES`.
        depth: how many waiting actions behind the candidates a decision may look at.
        gpu_policy: which one decides on GPU nodes: "residency", or one of those, applied node by node.
        api_policy: which one decides at API providers.
        instant_resize: nodes carry out a Resize without delay and send no Resized; for simulations.
        weights: share of each RL job in the growth of running actions, 1 for those not named; only policy "live"
            does that. JobWeight changes it, and lets jobs share the queues too.

    Raises:
        ValueError: there is no such policy, `depth` is negative, or a weight is not positive.
    """

    def __init__(
        self,
        policy: str = "live",
        depth: int = 16,
        *,
        gpu_policy: str = "residency",
        api_policy: str = "min",
        instant_resize: bool = False,
        weights: Mapping[str, int] = EQUAL,
    ) -> None:
        self._weights = dict(weights)
        self._policies = Policies(
            cpu=make_policy(policy, depth, self._weights),
            gpu=make_gpu_policy(gpu_policy, depth),
            api=make_policy(api_policy, depth),
        )
        self._places = Placement(instant_resize)
        self._now = 0
        self._decisions: list[Decision] = []

    def handle(self, event: Event) -> list[Decision]:
        """Take in one event and return everything that follows from it; see `handle_all`."""
        return self.handle_all([event])

    def handle_all(self, events: Iterable[Event]) -> list[Decision]:
        """Take in events that arrived together, and return everything that follows from them, decided once.

        An event dated before an earlier one counts as simultaneous with it: a clock that was set back gives no
        tokens away. Unknown ids in Released, Resized, Cancelled, SandboxReady, TrajectoryClosed and NodeLost, and known
        ones in Submitted, Restored and the opening of trajectories, change nothing.

        Raises:
            ValueError: an action's fields contradict each other; nothing has changed then. Or a policy is broken; what
                was decided before that is returned with the next call.
        """
        taken = list(events)
        for event in taken:
            if isinstance(event, Submitted):
                check(event.action)
        decisions = self._decisions
        for event in taken:
            current = event if event.at >= self._now else replace(event, at=self._now)
            self._now = current.at
            decisions += self._take_in(current)
        for waiter in self._places.room.expired(self._now):
            decisions.append(self._too_late(waiter))
        for trajectory, node in self._places.trajectories.place():
            decisions.append(OpenSandbox(trajectory, node))
        self._grant(decisions)
        self._decisions = []
        return decisions

    def next_wake(self, now: int) -> int | None:
        """Return the earliest ms, `now` or later, at which a Tick would change something, or None.

        That is a deadline of somebody who waits, or the refill of tokens for the head of a provider's queue.
        """
        moments = (self._places.attention.next_moment(), self._places.room.next_deadline())
        earliest = min((at for at in moments if at is not None), default=None)
        return None if earliest is None else max(now, earliest)

    def waiting(self) -> list[WaitingAction]:
        """Return everybody who waits, with place and position."""
        return waiting_actions(self._places.domains(), self._places.room)

    def predictions(self) -> list[Prediction]:
        """Return when everybody who queues is expected to start and end, if nobody else arrived."""
        return [row for domain in self._places.domains() for row in predictions(domain, self._now)]

    def next_services(self, node: str) -> tuple[str, ...]:
        """Return the services that may be asked for on a GPU node, in the order of their turns; () for others."""
        pool = self._places.gpu
        return next_services(pool.nodes[node], pool.queue) if node in pool.nodes else ()

    def explain(self, action: str) -> Explanation | None:
        """Return why an action waits; None if it does not."""
        return explain(self._places, self._now, action)

    def holdings(self) -> list[Holdings]:
        """Return what each place has and has given."""
        return [row for domain in self._places.domains() for row in holdings(domain)]

    def spent(self) -> dict[str, list[LaneState]]:
        """Return how our keys stand to each provider of which that has changed since it was asked last.

        The next leader is told by QuotaSpent.
        """
        return self._places.api.news(self._now)

    def validate(self) -> None:
        """Raise AssertionError, naming the book that is off, if the books do not add up."""
        self._places.validate()

    def _take_in(self, event: Event) -> list[Decision]:
        places = self._places
        match event:
            case Submitted():
                refusal = None if places.knows(event.action.id) else places.submit(event.action)
                return [] if refusal is None else [refusal]
            case Released():
                places.release(event.action)
            case Resized():
                places.resized(event)
            case Cancelled():
                places.room.remove(event.action)
            case Restored():
                places.restore(event)
            case Tick():
                pass
            case NodeJoined():
                return [*places.join(event), *self._refuse_sandboxes()]
            case NodeLost():
                return [*places.lose(event.node, event.kept), *self._refuse_sandboxes()]
            case JobWeight() | QuotaChanged() | ProviderClosed() | CallSent() | QuotaSpent():
                return self._share(event)
            case _:
                return self._trajectory(event)
        return []

    def _trajectory(self, event: TrajectoryEvent) -> list[Decision]:
        places, name = self._places, event.trajectory
        match event:
            case TrajectoryOpened():
                places.trajectories.open(name, event.memory, event.node)
                return self._refuse_sandboxes(name)
            case TrajectoryRestored():
                places.trajectories.restore(name, event.memory, event.node, event.ready)
            case SandboxReady():
                trajectory = places.trajectories.get(name)
                if trajectory is not None and trajectory.node is not None:
                    trajectory.ready = True
                    return list(places.seat(name))
            case TrajectoryClosed():
                trajectory = places.trajectories.close(name)
                if trajectory is not None:
                    order = [] if trajectory.node is None else [CloseSandbox(name, trajectory.node)]
                    return [*order, *places.abandon(name, event.reason)]
            case _:
                assert_never(event)
        return []

    def _share(self, event: JobWeight | QuotaEvent) -> list[Decision]:
        if not isinstance(event, JobWeight):
            return list(self._places.quota(event))
        self._weights.pop(event.job, None)
        if event.weight is not None:
            self._weights[event.job] = event.weight
        self._places.weigh(event.job, event.weight)
        return []

    def _refuse_sandboxes(self, only: str | None = None) -> list[Decision]:
        decisions: list[Decision] = []
        for trajectory, why in self._places.trajectories.impossible(only):
            self._places.trajectories.close(trajectory)
            decisions += [RefuseSandbox(trajectory, why), *self._places.abandon(trajectory, why)]
        return decisions

    def _too_late(self, waiter: Waiter) -> Reject:
        action, domain = waiter.action, waiter.domain
        self._places.room.remove(action.id)
        where = "has no place yet" if domain is None else f"finds {in_words(domain.free(self._now))} on {domain.name}"
        return Reject(
            action.id,
            "quota_exhausted" if action.key.startswith(API_PREFIX) else "no_capacity",
            f"action {action.id} has waited {self._now - action.arrival} ms for {in_words(action.demand)}, its"
            f" max_queue, and {where}: try again later or allow a longer max_queue",
        )

    def _grant(self, decisions: list[Decision]) -> None:
        places, attention, now = self._places, self._places.attention, self._now
        while (domain := attention.next(now)) is not None:
            for order in domain.decide(now, self._policies):
                if isinstance(order, Grant):
                    places.room.forget(order.action)
                    places.grants[order.action] = domain
                decisions.append(order)
            attention.look_at(domain, domain.wake())
