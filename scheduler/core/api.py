"""API providers: one domain per quota, shared by all nodes that can call the provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from scheduler.core.attention import Attention
from scheduler.core.domain import Domain, Order
from scheduler.core.events import Action, Grant
from scheduler.core.meter import Meter
from scheduler.core.policies import Policies
from scheduler.core.policy import Policy
from scheduler.core.quota import UNLIMITED, CallSent, LaneState, ProviderClosed, Quota

#: The second dimension of a provider: what its answers are charged by.
TOKENS = "tokens"


class ApiProvider(Domain):
    """One provider: a meter for each of our keys to it. A *lane* is the number of a key.

    It outlives its nodes: the provider counts our calls whichever node sends them, so the meters must stay.

    Args:
        key: "api:NAME".
        quota: what the provider allows each key.
        now: ms.
        load: actions in flight by node, over all providers; kept up to date here.
        attention: is told when something happens here.
    """

    def __init__(self, key: str, quota: Quota, now: int, load: Counter[str], attention: Attention[Domain]) -> None:
        super().__init__(key, key, {key: quota.concurrency * quota.keys}, attention)
        self.quota = quota
        self.lanes = [Meter(quota, now) for _ in range(quota.keys)]
        self.callers: dict[str, str] = {}
        self.stirred = False  # since somebody took notice
        self._offering: dict[str, None] = {}
        self._load = load
        self._lane_of: dict[str, int] = {}
        self._choice: Sequence[Meter] = self.lanes
        self._wake: int | None = None

    @property
    def offered(self) -> bool:
        """Whether some node that is present can call it."""
        return bool(self._offering)

    def could_hold(self, demand: Mapping[str, int]) -> bool:
        """Whether so many calls could ever start together."""
        calls, tokens = demand.get(self.key, 0), demand.get(TOKENS, 0)
        return self.offered and self.lanes[0].could_hold(calls, tokens)

    def free(self, now: int) -> dict[str, int]:
        """Return the calls that may start at `now` ms and, where that is limited, the tokens that they may use."""
        return {name: amount for name, amount in self.balance(now).items() if amount < UNLIMITED}

    def balance(self, now: int) -> dict[str, int]:
        """Return the calls that may start at `now` ms, and tokens: none is ever taken back, so nothing is negative."""
        if not self.offered:
            return {self.key: 0, TOKENS: UNLIMITED}
        return {
            self.key: sum(lane.room(now) for lane in self._choice),
            TOKENS: sum(lane.tokens(now) for lane in self._choice),
        }

    def offer(self, now: int, node: str, quota: Quota) -> None:
        """Let a node call this provider under this quota."""
        self._offering.setdefault(node)
        self.change(now, quota)

    def change(self, now: int, quota: Quota) -> None:
        """Take over another quota. What is in flight goes on; keys that are no more are kept for their calls."""
        self.resize({self.key: quota.concurrency * quota.keys})
        for lane in self.lanes:
            lane.change(now, quota)
        self.lanes += [Meter(quota, now) for _ in range(quota.keys - len(self.lanes))]
        self._choice = self.lanes[: quota.keys]
        self.quota = quota

    def close(self, event: ProviderClosed) -> None:
        """Let nobody call before the provider wants it."""
        for lane in self.lanes if event.lane is None else self.lanes[event.lane : event.lane + 1]:
            lane.close(event.at, event.until)
        self.touch()

    def told(self, event: CallSent) -> None:
        """Take in when an action's calls left, and what they used."""
        lane = self._lane_of.get(event.action)
        if lane is not None:
            self.lanes[lane].told(event)
            self.touch()

    def load(self, lanes: Sequence[LaneState]) -> None:
        """Begin where an earlier leader ended; lanes that are no more are left out."""
        for lane, state in zip(self.lanes, lanes, strict=False):
            lane.load(state)
        self.touch()

    def states(self, now: int) -> list[LaneState]:
        """Return how each lane stands."""
        return [lane.state(now) for lane in self.lanes]

    def touch(self) -> None:
        """Note that something happened here."""
        super().touch()
        self.stirred = True

    def withdraw(self, node: str) -> None:
        """Send no more calls to a node; those in flight go on."""
        self._offering.pop(node, None)
        self.touch()

    def restore(self, now: int, action: Action, node: str, units: int, lane: int = 0) -> None:
        """Enter in the books that an action holds a grant already, and with which key it calls."""
        self._lane_of[action.id] = lane if lane < len(self.lanes) else 0
        super().restore(now, action, node, units)

    def hold(self, now: int, action: Action, node: str, units: int) -> None:
        """Enter in the books that an action calls from a node since `now` ms."""
        super().hold(now, action, node, units)
        self.callers[action.id] = node
        self._load[node] += 1
        lane = self.lanes[self._lane_of.setdefault(action.id, 0)]
        lane.hold(action.id, units, action.demand.get(TOKENS, 0))

    def start(self, now: int, action: Action, node: str, units: int) -> None:
        """Book a fresh grant, of the key that is being decided upon, and spend it."""
        lane = self._choice[0]
        self._lane_of[action.id] = self.lanes.index(lane)
        lane.take(now, units)
        super().start(now, action, node, units)

    def release(self, action: str) -> None:
        """Give the calls in flight back; what was spent stays spent."""
        super().release(action)
        self._load[self.callers.pop(action)] -= 1
        self.lanes[self._lane_of.pop(action)].release(action)

    def cost(self, action: Action, units: int) -> int:
        """Return what an action counts among the jobs that share this provider: its calls, however long they take."""
        return units

    def pick_node(self) -> str:
        """Return the node with the fewest actions in flight, of those that offer this provider."""
        return min(self._offering, key=self._load.__getitem__)

    def wake(self) -> int | None:
        """Return the ms at which the head of the queue may start, if nothing happens before."""
        return self._wake if self.queue else None

    def decide(self, now: int, policies: Policies) -> list[Order]:
        """Start what the policy says at `now` ms, and note when time alone will next matter."""
        orders = super().decide(now, policies)
        self._wake = self._next_moment(now)
        return [
            Grant(order.action, order.node, order.units, self._lane_of[order.action])
            if isinstance(order, Grant)
            else order
            for order in orders
        ]

    def validate(self) -> None:
        """Raise AssertionError if the books do not add up."""
        super().validate()
        assert self.callers.keys() == self.running.keys(), f"domain {self.name}: its callers are not who runs"
        held = {action for lane in self.lanes for action in lane.held}
        assert held == self.running.keys(), f"domain {self.name}: the meters hold {held ^ self.running.keys()}"
        for lane in self.lanes:
            lane.validate()

    def _apply(self, now: int, policy: Policy) -> None:
        """Decide key by key, the one with most room first: one action's calls use one key."""
        choice = self._choice
        for lane in sorted(choice, key=lambda lane: -lane.room(now)):
            self._choice = (lane,)
            super()._apply(now, policy)
        self._choice = choice

    def _stale(self, now: int, *, always: bool) -> bool:
        """Whether something happened, or enough has come back."""
        if super()._stale(now, always=always):
            return True
        return len(self.queue) > 0 and self._wake is not None and now >= self._wake

    def _next_moment(self, now: int) -> int | None:
        if not self.queue or not self.offered:
            return None
        demand = self.queue.actions[0].demand
        moments = (lane.when(now, demand[self.key], demand.get(TOKENS, 0)) for lane in self._choice)
        when = min((moment for moment in moments if moment is not None), default=None)
        return when if when is not None and when > now else None
