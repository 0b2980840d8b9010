"""A service whose model runs in vLLM or SGLang servers that somebody else started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

from tangram_tasks.errors import ConfigurationError, ServiceUnavailable
from workers.canary import Canary
from workers.engines.connection import Connection
from workers.engines.control import Control
from workers.engines.engine import Engine, MemoryProbe, Patience
from workers.engines.engine_replica import EngineReplica
from workers.engines.shape import EngineMethod, checked
from workers.service import Away, Place, Watch, method_named


@dataclass(frozen=True, slots=True)
class Server:
    """One running server.

    Args:
        connection: to it.
        control: its commands.
        devices: the devices that it computes on, by index on the node.
    """

    connection: Connection
    control: Control
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What an engine's service is, beside its servers.

    Args:
        name: by which actions ask for it.
        nbytes: bytes on each device that sleeping gives up.
        residual_bytes: bytes on each device that it keeps while it sleeps.
        methods: how to ask it.
        canary: asked after every wake-up.
        patience: how long its commands may take.
    """

    name: str
    nbytes: int
    residual_bytes: int
    methods: Mapping[str, EngineMethod]
    canary: Canary | None = None
    patience: Patience = field(default_factory=Patience)


class EngineService:
    """Implements `workers.service.Service`.

    Args:
        spec: what it is.
        servers: equal ones; together they answer an action that has the devices of several.
        probe: tells a device's free memory.
    """

    in_arena = False

    def __init__(self, spec: EngineSpec, servers: Sequence[Server], *, probe: MemoryProbe) -> None:
        self.name = spec.name
        self.nbytes = spec.nbytes
        self.residual_bytes = spec.residual_bytes
        self.canary = spec.canary
        self.sizes: tuple[int, ...] = ()  # the spans say it
        self.spans = _unions([server.devices for server in servers])
        self._spec = spec
        self._servers = tuple(servers)
        self._probe = probe
        self._connections: dict[EngineReplica, Connection] = {}

    def replicas(self, places: Sequence[Place]) -> list[EngineReplica | None]:
        """Put the servers to sleep and return one replica per device of theirs. Raises ConfigurationError."""
        found: list[EngineReplica | None] = [None] * len(places)
        for server in self._servers:
            if max(server.devices) >= len(places):
                raise ConfigurationError(
                    f"service {self.name}: the server {server.connection.url} is on device {max(server.devices)}, and "
                    f"this node has {len(places)}, from 0"
                )
            engine = self._engine(server, tuple(places[index].device for index in server.devices))
            for index in server.devices:
                replica = found[index] = EngineReplica(engine, places[index].device, self.nbytes)
                self._connections[replica] = server.connection
        return found

    def method(self, name: str) -> EngineMethod:
        """Return a method. Raises InvalidAction naming those there are."""
        return method_named(self.name, self._spec.methods, name)

    def run(self, name: str, replica: EngineReplica, items: Sequence[Any], watch: Watch) -> list[Any]:
        """Answer one batch on a leased replica. See `workers.service.Service`."""
        return self._ask(name, self._connections[replica], items, watch)

    def free(self) -> None:
        """Close the connections; the servers are not ours to stop."""
        for server in self._servers:
            server.connection.close()

    def _engine(self, server: Server, devices: tuple[str, ...]) -> Engine:
        engine = Engine(
            self.name,
            server.control,
            devices,
            self.nbytes,
            probe=self._probe,
            check=self._checker(server.connection),
            patience=self._spec.patience,
        )
        try:
            engine.adopt()
        except ServiceUnavailable as error:
            raise ConfigurationError(f"service {self.name}: {error}; it needs {server.control.needs}") from error
        return engine

    def _checker(self, connection: Connection) -> Callable[[Watch], str]:
        canary = self.canary

        def check(watch: Watch) -> str:
            if canary is None:
                return ""
            items = self.method(canary.method).items(canary.payload)
            try:
                return canary.complaint(self._ask(canary.method, connection, items, watch))
            except Away:
                raise
            except ServiceUnavailable as error:
                return f"its canary ({canary.method}) failed: {error}"

        return check

    def _ask(self, name: str, connection: Connection, items: Sequence[Any], watch: Watch) -> list[Any]:
        method = self.method(name)
        replies = connection.post_all(method.path, watch, method.bodies(items))
        try:
            answers = method.answers(replies, items)
        except (LookupError, TypeError, ValueError) as error:
            raise ServiceUnavailable(
                f"the engine of {self.name} answered {method.path} in another shape than {name} expects: {error!r}"
            ) from error
        if len(answers) != len(items):
            raise ServiceUnavailable(f"service {self.name} gave {len(answers)} answers to {len(items)} items in {name}")
        values: list[Any] = checked(self.name, answers)
        return values


def _unions(groups: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the devices of each choice of servers: a server is used as a whole."""
    choices = (choice for count in range(1, len(groups) + 1) for choice in combinations(groups, count))
    return tuple(tuple(sorted(chain.from_iterable(choice))) for choice in choices)
