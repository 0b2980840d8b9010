"""API providers: one domain per quota, shared by all nodes that can call the provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from scheduler.core.attention import Attention
from scheduler.core.bucket import TokenBucket
from scheduler.core.domain import Domain, Order
from scheduler.core.events import Action, Quota
from scheduler.core.policy import Policy


class ApiProvider(Domain):
    """One provider: calls in flight, and calls started per second.

    It outlives its nodes: the provider counts our calls whichever node sends them, so the bucket must stay.

    Args:
        key: "api:NAME".
        quota: what the provider allows.
        now: ms.
        load: actions in flight by node, over all providers; kept up to date here.
        attention: is told when something happens here.
    """

    def __init__(self, key: str, quota: Quota, now: int, load: Counter[str], attention: Attention[Domain]) -> None:
        super().__init__(key, key, {key: quota.concurrency}, attention)
        self.quota = quota
        self._bucket = _bucket(quota, now)
        self._offering: dict[str, None] = {}
        self._load = load
        self.callers: dict[str, str] = {}
        self._wake: int | None = None

    @property
    def offered(self) -> bool:
        """Whether some node that is present can call it."""
        return bool(self._offering)

    def could_hold(self, demand: Mapping[str, int]) -> bool:
        """Whether so many calls could ever start together."""
        burst_fits = self.quota.per_second is None or demand.get(self.key, 0) <= self.quota.burst
        return self.offered and burst_fits and super().could_hold(demand)

    def free(self, now: int) -> dict[str, int]:
        """Return the calls that may start at `now` ms."""
        if not self.offered:
            return {self.key: 0}
        room = max(0, self.capacity[self.key] - self.used[self.key])
        return {self.key: room if self._bucket is None else min(room, self._bucket.tokens(now))}

    def balance(self, now: int) -> dict[str, int]:
        """Return the calls that may start at `now` ms: none is ever taken back, so nothing is negative."""
        return self.free(now)

    def offer(self, now: int, node: str, quota: Quota) -> None:
        """Let a node call this provider; the newest announcement of the quota counts."""
        self._offering.setdefault(node)
        self.resize({self.key: quota.concurrency})
        if quota.per_second is None or self._bucket is None:
            self._bucket = _bucket(quota, now)
        else:
            self._bucket.change(now, quota.per_second, quota.burst)
        self.quota = quota

    def withdraw(self, node: str) -> None:
        """Send no more calls to a node; those in flight go on."""
        self._offering.pop(node, None)
        self.touch()

    def hold(self, now: int, action: Action, node: str, units: int) -> None:
        """Enter in the books that an action calls from a node since `now` ms."""
        super().hold(now, action, node, units)
        self.callers[action.id] = node
        self._load[node] += 1

    def start(self, now: int, action: Action, node: str, units: int) -> None:
        """Book a fresh grant and spend its tokens."""
        if self._bucket is not None:
            self._bucket.take(now, units)
        super().start(now, action, node, units)

    def release(self, action: str) -> None:
        """Give the calls in flight back; tokens stay spent."""
        super().release(action)
        self._load[self.callers.pop(action)] -= 1

    def pick_node(self) -> str:
        """Return the node with the fewest actions in flight, of those that offer this provider."""
        return min(self._offering, key=self._load.__getitem__)

    def wake(self) -> int | None:
        """Return the ms at which the head of the queue will have its tokens, if only they are missing."""
        return self._wake if self.queue else None

    def decide(self, now: int, policy: Policy) -> list[Order]:
        """Start what the policy says at `now` ms, and note when tokens will next matter."""
        orders = super().decide(now, policy)
        self._wake = self._next_refill(now)
        return orders

    def validate(self) -> None:
        """Raise AssertionError if the books do not add up."""
        super().validate()
        assert self.callers.keys() == self.running.keys(), f"domain {self.name}: its callers are not who runs"

    def _stale(self, now: int, policy: Policy) -> bool:
        """Whether something happened, or enough tokens have come back."""
        return super()._stale(now, policy) or (len(self.queue) > 0 and self._wake is not None and now >= self._wake)

    def _next_refill(self, now: int) -> int | None:
        if not self.queue or self._bucket is None or not self.offered:
            return None
        need = self.queue.actions[0].sizes[0]
        if need > self.capacity[self.key] - self.used[self.key]:
            return None
        when = self._bucket.when(now, need)
        return when if when > now else None


def _bucket(quota: Quota, now: int) -> TokenBucket | None:
    return None if quota.per_second is None else TokenBucket(quota.per_second, quota.burst, now)
