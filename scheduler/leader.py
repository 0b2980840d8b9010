"""Who leads: a lock with a lease in Redis, and an epoch that fences every earlier leader."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from uuid import uuid4

import redis.asyncio as aioredis

from tangram_tasks.keys import Keys


class LeadLost(Exception):
    """Another scheduler leads now, or the lease could not be kept."""


class Leader:
    """The lead of one scheduler process.

    Args:
        client: the deployment's Redis.
        keys: names.
        lease: seconds after which a silent leader loses the lead.
    """

    def __init__(self, client: aioredis.Redis, keys: Keys, lease: float) -> None:
        self.name = f"admission@{socket.gethostname()}-{uuid4().hex[:6]}"
        self._client = client
        self._keys = keys
        self._lease = lease
        lua = Path(__file__).parent / "lua"
        self._take = client.register_script((lua / "lead.lua").read_text())
        self._renew = client.register_script((lua / "renew.lua").read_text())

    async def acquire(self) -> int:
        """Wait for the lead and return the new epoch. Waiting for it is what a standby does."""
        keys = [self._keys.leader, self._keys.epoch, self._keys.broker_run]
        while True:
            run = str((await self._client.info("server"))["run_id"])
            epoch = int(await self._take(keys=keys, args=[self.name, self._milliseconds, run]))
            if epoch:
                return epoch
            await asyncio.sleep(self._lease / 6)

    async def keep(self) -> None:
        """Renew the lease until it cannot be. Raises LeadLost."""
        while True:
            await asyncio.sleep(self._lease / 3)
            if not await self._renew(keys=[self._keys.leader], args=[self.name, self._milliseconds]):
                raise LeadLost(f"{self.name} lost the lead")

    async def resign(self) -> None:
        """Give the lead up at once, so that a standby need not wait for the lease to end."""
        if await self._client.get(self._keys.leader) == self.name.encode():
            await self._client.delete(self._keys.leader)

    @property
    def _milliseconds(self) -> int:
        return int(self._lease * 1000)
