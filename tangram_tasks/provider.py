"""How an operator declares an HTTP API: where it is, what it allows, how we identify ourselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from tangram_tasks.errors import ConfigurationError
from tangram_tasks.sharing import QuotaRecord, WindowRecord

#: Calls in flight that a provider is never given more of while its limit is being learned.
LEARNED_MOST = 1000
MINUTE, DAY = 60.0, 86_400.0


class Limits(BaseModel):
    """What a provider allows each of our keys. Every limit counts; what is not given is not limited.

    Args:
        concurrency: calls in flight; None: not known, so it is learned from the provider's answers.
        per_second: calls in any second; a number that is not whole spaces them by its inverse.
        per_minute: calls in any minute.
        per_day: calls in any 24 hours.
        tokens_per_minute: tokens in any minute: estimated before a call, corrected by what its answer says.
        burst: calls that may start at once; then they are spread evenly over a second. None: not spread.
        windows: further limits, each {"limit": N, "seconds": S, "counts": "calls" or "tokens"}.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrency: int | None = Field(default=None, gt=0)
    per_second: float | None = Field(default=None, gt=0)
    per_minute: int | None = Field(default=None, gt=0)
    per_day: int | None = Field(default=None, gt=0)
    tokens_per_minute: int | None = Field(default=None, gt=0)
    burst: int | None = Field(default=None, gt=0)
    windows: tuple[WindowRecord, ...] = ()

    @model_validator(mode="after")
    def _burst_has_a_rate(self) -> Limits:
        if self.burst is not None and self.per_second is None:
            raise ValueError("burst spreads per_second: give that too")
        return self

    def quota(self, keys: int = 1) -> QuotaRecord:
        """Return this as it is announced, for so many keys."""
        return QuotaRecord(
            concurrency=self.concurrency or LEARNED_MOST,
            adaptive=self.concurrency is None,
            per_second=self.per_second if self.burst is not None else None,
            burst=self.burst or 1,
            windows=(*self._windows(), *self.windows),
            keys=keys,
        )

    def on_top_of(self, quota: QuotaRecord) -> QuotaRecord:
        """Return a quota with these limits instead of its own of the same kind."""
        given = self.quota()
        kept = [
            row
            for row in quota.windows
            if not any(row.counts == other.counts and _span(row) == _span(other) for other in given.windows)
        ]
        changes: dict[str, object] = {"windows": (*kept, *given.windows)}
        if self.concurrency is not None:
            changes |= {"concurrency": self.concurrency, "adaptive": False}
        if self.per_second is not None and quota.per_second is not None:
            changes["per_second"] = self.per_second
        return quota.model_copy(update=changes)

    def _windows(self) -> list[WindowRecord]:
        rows: list[tuple[int, float, Literal["calls", "tokens"]]] = []
        if self.per_second is not None:
            whole = self.per_second.is_integer()
            rows.append((int(self.per_second), 1.0, "calls") if whole else (1, 1 / self.per_second, "calls"))
        if self.per_minute is not None:
            rows.append((self.per_minute, MINUTE, "calls"))
        if self.per_day is not None:
            rows.append((self.per_day, DAY, "calls"))
        if self.tokens_per_minute is not None:
            rows.append((self.tokens_per_minute, MINUTE, "tokens"))
        return [WindowRecord(limit=limit, seconds=seconds, counts=counts) for limit, seconds, counts in rows]


def _span(window: WindowRecord) -> float:
    """Return a window's length; one that spaces single calls stands for a second."""
    return 1.0 if window.limit == 1 and window.counts == "calls" and window.seconds < MINUTE else window.seconds


class Provider(Limits):
    """An HTTP API with a quota.

    Args:
        base_url: where it is; no call leaves it, except by redirects to `redirect_hosts`.
        timeout: seconds for one request, at most.
        connect_timeout: seconds until the connection stands.
        retries: how often a call that the provider refused (429, 503) or lost may be tried again.
        key_env: environment variables of the worker that hold keys; never sent through Redis.
        key_file: file on the worker with one key per line.
        key_header: header that carries the key; "authorization" carries it as "Bearer KEY".
        cache_ttl: seconds for which answers to equal requests are taken from Redis; None: never.
        redirect_hosts: patterns of hosts that it may redirect to, for example "*.example.org"; they get no key.
        allow_private: its name may lead to a private address.
    """

    base_url: str = Field(pattern=r"^https?://[^/?#]+")
    timeout: float = Field(default=30.0, gt=0)
    connect_timeout: float = Field(default=5.0, gt=0)
    retries: int = Field(default=3, ge=0)
    key_env: tuple[str, ...] = ()
    key_file: Path | None = None
    key_header: str = "authorization"
    cache_ttl: float | None = Field(default=None, gt=0)
    redirect_hosts: tuple[str, ...] = ()
    allow_private: bool = False

    @field_validator("key_env", mode="before")
    @classmethod
    def _one_or_several(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else names or ()

    def keys(self) -> tuple[str, ...]:
        """Return our keys, read from this process's environment and files. Raises ConfigurationError."""
        missing = [name for name in self.key_env if not os.environ.get(name)]
        if missing:
            raise ConfigurationError(f"a key of {self.base_url} is missing: set {' and '.join(missing)}")
        keys = [os.environ[name].strip() for name in self.key_env]
        if self.key_file is not None:
            try:
                lines = self.key_file.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"cannot read the keys of {self.base_url}: {error}") from None
            keys += [line.strip() for line in lines if line.strip()]
            if not keys:
                raise ConfigurationError(f"{self.key_file} holds no key of {self.base_url}: write one per line")
        return tuple(keys)

    def credentials(self, key: str) -> dict[str, str]:
        """Return the header that carries a key."""
        return {self.key_header: f"Bearer {key}" if self.key_header.lower() == "authorization" else key}


def providers_from(rows: Mapping[str, Any]) -> dict[str, Provider]:
    """Check declarations that were read from a file. Raises ConfigurationError naming provider and field."""
    try:
        return TypeAdapter(dict[str, Provider]).validate_python(dict(rows))
    except ValidationError as error:
        reasons = "; ".join(f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors())
        raise ConfigurationError(f"providers: {reasons}") from None
