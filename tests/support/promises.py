"""A trajectory's sandbox and a provider's quota, as the test's ledger keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from scheduler.core.events import Action
from scheduler.core.quota import Quota


@dataclass
class Sandbox:
    """One trajectory as its user sees it."""

    memory: int
    node: str | None = None
    ready: bool = False


@dataclass
class Provider:
    """One quota, with a token bucket in fractions and every start."""

    quota: Quota
    tokens: Fraction = Fraction(0)
    at: int = 0
    starts: list[tuple[int, int]] = field(default_factory=list)

    @property
    def rate(self) -> Fraction:
        return Fraction(str(self.quota.per_second or 0)) / 1000

    def level(self, at: int) -> Fraction:
        return min(Fraction(self.quota.burst), self.tokens + self.rate * (at - self.at))

    def refill(self, at: int) -> None:
        """Begin anew with a full bucket."""
        self.tokens, self.at, self.starts = Fraction(self.quota.burst), at, []

    def start(self, at: int, calls: int) -> None:
        if self.quota.per_second is None:
            return
        self.tokens, self.at = self.level(at) - calls, at
        self.starts.append((at, calls))
        recent = 0
        for since, count in reversed(self.starts):
            recent += count
            allowed = self.quota.burst + self.rate * (at - since)
            assert recent <= allowed, f"{recent} calls started between {since} and {at} ms, {allowed} are allowed"


def charge_of(action: Action, units: int) -> dict[str, int]:
    """Return what an action takes from its node: a sandbox's memory is reserved already, light ones take no cpu."""
    charge = {**action.demand, action.key: 0 if action.light else units}
    if action.trajectory is not None:
        charge.pop("memory", None)
    return charge


def order_of(action: Action) -> tuple[int, int]:
    """Return the key by which actions are served."""
    return (action.arrival - 30_000 * action.priority, action.seq)
