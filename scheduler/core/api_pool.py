"""The API pool: the nodes that can call providers, and the providers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scheduler.core.api import ApiProvider
from scheduler.core.attention import Attention
from scheduler.core.domain import API_PREFIX, Domain
from scheduler.core.events import Action, NodeJoined
from scheduler.core.pool import foreign


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

    def domains(self) -> Iterable[ApiProvider]:
        """Return the providers, in order of becoming known."""
        return self.providers.values()

    def join(self, event: NodeJoined) -> None:
        """Add a node, or take over its new quotas."""
        self.nodes.add(event.node)
        offered = {API_PREFIX + name: quota for name, quota in event.quotas.items()}
        for key, quota in offered.items():
            if key not in self.providers:
                self.providers[key] = ApiProvider(key, quota, event.at, self._load, self._attention)
            self.providers[key].offer(event.at, event.node, quota)
        for key in self.providers.keys() - offered.keys():
            self.providers[key].withdraw(event.node)

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
        return foreign(action, [action.key], "an api node") or self._too_big(action)

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
        return (
            f"action {action.id} starts {action.demand[action.key]} calls at once, but {action.key} allows"
            f" {quota.concurrency} in flight and bursts of {quota.burst}: ask for fewer or raise the quota"
        )
