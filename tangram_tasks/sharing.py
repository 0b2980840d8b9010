"""Messages about what is shared: quotas of API providers, and RL jobs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tangram_tasks.message import REPORTED, SAID


class _Message(BaseModel):
    model_config = SAID


class _Report(BaseModel):
    model_config = REPORTED


class WindowRecord(_Message):
    """No more than `limit` calls, or tokens, in any span of so many seconds."""

    limit: int = Field(gt=0)
    seconds: float = Field(gt=0)
    counts: Literal["calls", "tokens"] = "calls"


class QuotaRecord(_Message):
    """What an API provider allows; see scheduler.core.quota.Quota."""

    concurrency: int = Field(gt=0)
    per_second: float | None = Field(default=None, gt=0)
    burst: int = Field(default=1, gt=0)
    windows: tuple[WindowRecord, ...] = ()
    adaptive: bool = False
    keys: int = Field(default=1, gt=0)


class SetQuota(_Message):
    """Client to scheduler: a provider's quota is this from now on; None: what its nodes announce."""

    op: Literal["quota"] = "quota"
    provider: str
    quota: QuotaRecord | None


class SetJob(_Message):
    """Client to scheduler: change an RL job.

    Args:
        job: its name.
        weight: its share; None leaves that.
        state: "active", "paused" (what waits goes on waiting), or "cancelled" (all its actions end); None leaves that.
    """

    op: Literal["job"] = "job"
    job: str = Field(min_length=1)
    weight: int | None = Field(default=None, ge=1)
    state: Literal["active", "paused", "cancelled"] | None = None


class JobRecord(_Message):
    """An RL job as the ledger keeps it.

    Args:
        weight: its share.
        state: see SetJob.
        by_hand: somebody set the weight: what its actions say does not count.
    """

    weight: int = 1
    state: Literal["active", "paused", "cancelled"] = "active"
    by_hand: bool = False


class CloseProvider(_Message):
    """Scheduler to API node: do not call this provider for so many seconds; see ProviderState."""

    op: Literal["close_provider"] = "close_provider"
    provider: str
    seconds: float = Field(ge=0)
    lane: int | None = None


class ProviderState(_Report):
    """Node to scheduler: a provider has had enough.

    Args:
        node: the node.
        provider: which.
        seconds: it wants no calls for so long; 0: it is merely overloaded.
        lane: the key that it said so to; None: it would say so to any.
    """

    event: Literal["provider"] = "provider"
    node: str
    provider: str
    seconds: float = Field(ge=0)
    lane: int | None = None


class CallsSent(_Report):
    """Node to scheduler: when the calls of actions that still run left, by the node's wall clock, s."""

    event: Literal["sent"] = "sent"
    node: str
    sent: dict[str, float]


class LaneRecord(_Message):
    """One of our keys to a provider, as the ledger keeps it.

    Args:
        spent: (ms since the epoch, calls, tokens) of what its limits still count.
        closed_until: ms since the epoch until which the provider wants no calls.
        in_flight: calls in flight.
        concurrency: calls that may be in flight now.
    """

    spent: tuple[tuple[int, int, int], ...] = ()
    closed_until: int = 0
    in_flight: int = 0
    concurrency: int = 0


class ProviderRecord(_Message):
    """A provider as the ledger keeps it, key by key."""

    lanes: tuple[LaneRecord, ...]
