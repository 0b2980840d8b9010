"""What one trajectory may use: per action whatever the scheduler grants, or statically one reserved share.

The static side is what frameworks do without action-level scheduling: CPU cores reserved for a trajectory's whole
life, one device per reward model, and an API quota split evenly among the trajectories that live.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol


class Share(Protocol):
    """What one trajectory may use."""

    cpu: int | None  # units of every CPU action; None leaves the size to the scheduler
    waited: float  # seconds it waited to exist

    def hold(self, resource: str | None) -> AbstractAsyncContextManager[None]:
        """Wait on the client's side for a service ("minilm") or a provider ("api:search"), and hold it."""


class Sharing(Protocol):
    """How trajectories of one batch share the machine."""

    def enter(self) -> AbstractAsyncContextManager[Share]:
        """Wait until a trajectory may live, and let it live."""

    def reserved(self) -> Mapping[str, float]:
        """Return unit-seconds that were reserved, by resource; empty where nothing is reserved."""


class PerAction:
    """Tangram: a trajectory holds nothing between its actions."""

    cpu: int | None = None
    waited: float = 0.0

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[Share]:
        """Begin at once."""
        yield self

    @asynccontextmanager
    async def hold(self, resource: str | None) -> AsyncIterator[None]:
        """Hold nothing: admission decides."""
        yield

    def reserved(self) -> Mapping[str, float]:
        """Nothing is reserved."""
        return {}


class PerService:
    """Devices reserved per service: each answers one call at a time, and trajectories wait for it.

    Args:
        services: reward models, each with a device of its own.
    """

    cpu: int | None = None
    waited: float = 0.0

    def __init__(self, services: Sequence[str]) -> None:
        self._services = {name: asyncio.Semaphore(1) for name in services}

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[Share]:
        """Begin at once."""
        yield self

    @asynccontextmanager
    async def hold(self, resource: str | None) -> AsyncIterator[None]:
        """Wait for the service's device."""
        async with self._services[resource or ""]:
            yield

    def reserved(self) -> Mapping[str, float]:
        """Trajectories reserve nothing."""
        return {}


class Static:
    """One reserved share per trajectory.

    Args:
        capacity: CPU units of the machine.
        share: CPU units of one trajectory.
        services: reward models, each with a device of its own.
        quotas: provider to calls started per second, split evenly among the trajectories that can live at once.
    """

    def __init__(self, capacity: int, share: int, services: tuple[str, ...], quotas: Mapping[str, float]) -> None:
        self.live = capacity // share
        if self.live < 1:
            raise ValueError(f"a share of {share} units does not fit into {capacity}")
        self.share = share
        self.quotas = quotas
        self.services = {name: asyncio.Semaphore(1) for name in services}
        self._places = asyncio.Semaphore(self.live)
        self._unit_seconds = 0.0

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[Share]:
        """Wait for a free share, and reserve it until the trajectory ends."""
        asked = time.monotonic()
        async with self._places:
            began = time.monotonic()
            try:
                yield ReservedShare(self, began - asked)
            finally:
                self._unit_seconds += self.share * (time.monotonic() - began)

    def reserved(self) -> Mapping[str, float]:
        """Return the unit-seconds of CPU that were reserved."""
        return {"cpu": self._unit_seconds}


class ReservedShare:
    """The share of one trajectory.

    Args:
        static: how the batch is shared.
        waited: seconds it waited for its share.
    """

    def __init__(self, static: Static, waited: float) -> None:
        self.cpu: int | None = static.share
        self.waited = waited
        self._services = static.services
        self._limiters = {f"api:{name}": _Limiter(rate / static.live) for name, rate in static.quotas.items()}

    @asynccontextmanager
    async def hold(self, resource: str | None) -> AsyncIterator[None]:
        """Wait for the service's device, or for this trajectory's part of the provider's quota."""
        if resource in self._services:
            async with self._services[resource]:
                yield
        elif resource in self._limiters:
            async with self._limiters[resource].call():
                yield
        else:
            yield


class _Limiter:
    """One call at a time, and no more than `rate` starts per second."""

    def __init__(self, rate: float) -> None:
        self._spacing = 1.0 / rate
        self._lock = asyncio.Lock()
        self._next = 0.0

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        async with self._lock:
            await asyncio.sleep(max(0.0, self._next - time.monotonic()))
            self._next = time.monotonic() + self._spacing
            yield
