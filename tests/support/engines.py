"""Services in simulated engines, and pagers for them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.engine_simulators import SglangSimulator, SimulatedDevice, VllmSimulator
from workers.canary import Canary
from workers.engine_sources import engine_service
from workers.engines.engine_service import EngineService
from workers.engines.limit import Limit
from workers.pager import Pager
from workers.service import Place
from workers.service_declaration import ServerDeclaration, SglangDeclaration, VllmDeclaration

MIB = 1 << 20
#: What an engine takes in these tests, and what its canary must answer.
NBYTES = 512 * MIB
CANARY = Canary(payload={"pairs": [["a b", "a b"], ["a", "b"]]}, expected=[1.0, 0.0])
PAIRS = {"pairs": [["the cat", "the cat"], ["the cat", "the dog"], ["a", "z"]]}
SCORES = [1.0, 1 / 3, 0.0]

Simulator = VllmSimulator | SglangSimulator


class Host:
    """A device with simulated engines on it, and the pager that moves them.

    Args:
        device: the memory they share.
        folder: where it is remembered what they were told.
        budget: bytes that the pager shares out.
    """

    def __init__(self, device: SimulatedDevice, folder: Path, budget: int) -> None:
        self.device = device
        self.pager = Pager("gpu-0", budget)
        self.services: dict[str, EngineService] = {}
        self._declared: list[EngineService] = []
        self._folder = folder

    def probe(self, device: str) -> int | None:
        """Return what is free."""
        return self.device.free

    def serve(self, name: str, engine: Simulator, **fields: Any) -> EngineService:
        """Declare a service in an engine, and register it."""
        service = self.declare(name, engine, **fields)
        self.services[name] = service
        (replica,) = service.replicas([Place("gpu-0")])
        assert replica is not None
        self.pager.register(name, replica)
        return service

    def declare(self, name: str, engine: Simulator, **fields: Any) -> EngineService:
        """Declare a service in an engine."""
        kind = VllmDeclaration if isinstance(engine, VllmSimulator) else SglangDeclaration
        options: dict[str, Any] = {
            "servers": (ServerDeclaration(url=engine.url),),
            "memory": NBYTES,
            "canary": CANARY,
            "settle_s": 0.5,
            "sleep_s": 5,
            "wake_s": 5,
        }
        service = engine_service(kind(name=name, **{**options, **fields}), self._folder, self.probe)
        self._declared.append(service)
        return service

    def ask(
        self,
        name: str,
        payload: Mapping[str, Any] = PAIRS,
        *,
        method: str = "score",
        action: str = "a1",
        seconds: float = 10.0,
    ) -> list[Any]:
        """Ask a service as an action does."""
        with self.pinned(name, action=action) as service:
            items = service.method(method).items(dict(payload))
            return service.run(method, next(iter(service._connections)), items, Limit(f"action {action}", seconds))

    @contextmanager
    def pinned(self, name: str, *, action: str = "a1") -> Iterator[EngineService]:
        """Hold a service on the device."""
        with self.pager.pin(name, action=action, deadline=time.monotonic() + 10):
            yield self.services[name]

    def close(self) -> None:
        """Close the connections."""
        for service in self._declared:
            service.free()
