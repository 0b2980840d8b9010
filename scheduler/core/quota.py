"""What a provider allows, and what happens to that: the events of API quotas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

#: More than anybody asks for.
UNLIMITED = 10**15


@dataclass(frozen=True, slots=True)
class Window:
    """No more than `limit` in any span of `ms`.

    Args:
        limit: calls, or tokens.
        ms: the span.
        counts: which of the two.
        margin: ms by which a call may reach the provider later than the one after it.
    """

    limit: int
    ms: int
    counts: Literal["calls", "tokens"] = "calls"
    margin: int = 0


@dataclass(frozen=True, slots=True)
class Quota:
    """What an API provider allows, for each of our keys to it.

    Args:
        concurrency: calls in flight.
        per_second: calls started per second on average; None is unlimited.
        burst: calls that may start at once when the bucket is full.
        windows: limits that hold in any span of time, however the calls fall.
        adaptive: how many it bears is not known: begin with few, at most `concurrency`, and learn from its answers.
        keys: how many keys we have; each has a quota of its own.
    """

    concurrency: int
    per_second: float | None = None
    burst: int = 1
    windows: tuple[Window, ...] = ()
    adaptive: bool = False
    keys: int = 1


class Spent(NamedTuple):
    """Calls, and tokens in them, that left at a moment, ms."""

    at: int
    calls: int
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class QuotaChanged:
    """Somebody set a provider's quota by hand; None lets what its nodes announce count again."""

    at: int
    provider: str
    quota: Quota | None


@dataclass(frozen=True, slots=True)
class ProviderClosed:
    """A provider said that it has enough: nobody calls it before `until`.

    Args:
        at: ms.
        provider: its name, without "api:".
        until: ms; not later than `at` if it is merely overloaded.
        lane: the one of our keys that this is about; None: all.
    """

    at: int
    provider: str
    until: int
    lane: int | None = None


@dataclass(frozen=True, slots=True)
class CallSent:
    """A node told what became of an action's calls.

    Args:
        at: ms.
        action: which.
        sent: ms at which the last of its calls left; None if that is not told here.
        tokens: what they really used; None if that is not told here.
        unsent: none of its calls left, and none will.
    """

    at: int
    action: str
    sent: int | None = None
    tokens: int | None = None
    unsent: bool = False


class LaneState(NamedTuple):
    """One of our keys to a provider.

    Args:
        spent: what its limits still count, without what is in flight.
        closed_until: ms until which the provider wants no calls.
        in_flight: calls in flight.
        concurrency: calls that may be in flight now; 0 if that is not told.
    """

    spent: tuple[Spent, ...] = ()
    closed_until: int = 0
    in_flight: int = 0
    concurrency: int = 0


@dataclass(frozen=True, slots=True)
class QuotaSpent:
    """After a restart of the scheduler: how our keys to a provider stood; see `Admission.spent`."""

    at: int
    provider: str
    lanes: tuple[LaneState, ...]
