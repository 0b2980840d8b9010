"""The API pool: the nodes that can call providers, and the providers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from scheduler.core.api import TOKENS, ApiProvider
from scheduler.core.attention import Attention
from scheduler.core.domain import API_PREFIX, Domain
from scheduler.core.events import Action, NodeJoined
from scheduler.core.members import foreign
from scheduler.core.quota import CallSent, LaneState, ProviderClosed, Quota, QuotaChanged, QuotaSpent

QuotaEvent = QuotaChanged | ProviderClosed | CallSent | QuotaSpent


class ApiPool:
    """The API nodes and the providers they can call.

    Args:
        attention: is told when something happens at a provider.
    """

    def __init__(self, attention: Attention[Domain]) -> None:
        self._attention = attention
        self.nodes: set[str] = set()
        self.providers: dict[str, ApiProvider] = {}
        self._load: Counter[str] = Counter()
        self._announced: dict[str, Quota] = {}
        self._by_hand: dict[str, Quota] = {}
        self._spent_before: dict[str, QuotaSpent] = {}

    def domains(self) -> Iterable[ApiProvider]:
        """Return the providers, in order of becoming known."""
        return self.providers.values()

    def join(self, event: NodeJoined) -> None:
        """Add a node, or take over its new quotas."""
        self.nodes.add(event.node)
        offered = {API_PREFIX + name: quota for name, quota in event.quotas.items()}
        self._announced |= offered
        for key in offered:
            quota = self._quota(key)
            if key not in self.providers:
                self.providers[key] = ApiProvider(key, quota, event.at, self._load, self._attention)
            self.providers[key].offer(event.at, event.node, quota)
            if key in self._spent_before:
                self.providers[key].load(self._spent_before.pop(key).lanes)
        for key in self.providers.keys() - offered.keys():
            self.providers[key].withdraw(event.node)

    def take_in(self, event: QuotaEvent) -> None:
        """Take in what happened to a quota. What concerns an unknown provider is kept until a node offers it."""
        if isinstance(event, CallSent):
            for provider in self.providers.values():
                provider.told(event)
            return
        key = API_PREFIX + event.provider
        known = self.providers.get(key)
        match event:
            case QuotaChanged(quota=quota):
                self._by_hand.pop(key, None)
                if quota is not None:
                    self._by_hand[key] = quota
                if known is not None:
                    known.change(event.at, self._quota(key))
            case ProviderClosed() if known is not None:
                known.close(event)
            case QuotaSpent() if known is not None:
                known.load(event.lanes)
            case QuotaSpent():
                self._spent_before[key] = event

    def news(self, now: int) -> dict[str, list[LaneState]]:
        """Return how the lanes stand of each provider of which that was not asked since something happened there."""
        rows = {}
        for key, provider in self.providers.items():
            if provider.stirred:
                provider.stirred = False
                rows[key.removeprefix(API_PREFIX)] = provider.states(now)
        return rows

    def lose(self, node: str) -> list[str]:
        """Take a node out of every provider. Returns the actions that called from it; they hold nothing any more."""
        self.nodes.discard(node)
        forgotten = []
        for provider in self.providers.values():
            provider.withdraw(node)
            for action in [action for action, caller in provider.callers.items() if caller == node]:
                provider.release(action)
                forgotten.append(action)
        self._load.pop(node, None)
        return forgotten

    def domain_at(self, node: str, action: Action) -> ApiProvider | None:
        """Return the provider: it counts our calls whichever node sends them."""
        return self.providers.get(action.key)

    def refusal(self, action: Action) -> str | None:
        """Return why no API node that is present could ever make this call, or None."""
        return foreign(action, [action.key, TOKENS], "an api node") or self._too_big(action)

    def route(self, action: Action) -> ApiProvider | None:
        """Return the provider's domain if a node can call it."""
        provider = self.providers.get(action.key)
        return provider if provider is not None and provider.could_hold(action.demand) else None

    def validate(self) -> None:
        """Raise AssertionError if the books do not add up."""
        callers = Counter(node for provider in self.providers.values() for node in provider.callers.values())
        assert +self._load == callers, f"api nodes: in flight {dict(+self._load)}, but {dict(callers)} call"

    def _too_big(self, action: Action) -> str | None:
        if not self.nodes or self.route(action) is not None:
            return None
        provider = self.providers.get(action.key)
        if provider is None or not provider.offered:
            offered = ", ".join(sorted(key for key, other in self.providers.items() if other.offered)) or "nothing"
            return f"action {action.id} calls {action.key}, which no api node offers: they offer {offered}"
        quota = provider.quota
        limits = [f"{quota.concurrency} in flight", f"bursts of {quota.burst}"]
        limits += [f"{window.limit} {window.counts} per {window.ms / 1000:g} s" for window in quota.windows]
        tokens = f" with {action.demand[TOKENS]} tokens" if TOKENS in action.demand else ""
        return (
            f"action {action.id} starts {action.demand[action.key]} calls{tokens} at once, but {action.key} allows"
            f" {' and '.join(limits)}: ask for fewer or raise the quota"
        )

    def _quota(self, key: str) -> Quota:
        """Return what counts: set by hand, else announced. How many keys there are, only the nodes know."""
        by_hand, announced = self._by_hand.get(key), self._announced[key]
        return announced if by_hand is None else replace(by_hand, keys=announced.keys)
