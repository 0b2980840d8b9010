"""From a declaration to a service in engines of its own."""

from __future__ import annotations

from pathlib import Path

from workers.engines.connection import Connection
from workers.engines.control import Control
from workers.engines.engine import MemoryProbe, Patience
from workers.engines.engine_service import EngineService, EngineSpec, Server
from workers.engines.presets import SHAPES, TEACHERS
from workers.engines.sglang import SglangControl
from workers.engines.shape import EngineMethod, method_of
from workers.engines.vllm import VllmControl
from workers.service_declaration import EngineDeclaration, VllmDeclaration


def engine_service(declaration: EngineDeclaration, state_dir: Path, probe: MemoryProbe) -> EngineService:
    """Return the service; nothing is asked of its servers yet. Raises ConfigurationError if a key is missing.

    Args:
        declaration: what it is.
        state_dir: where it is remembered what engines were told.
        probe: tells a device's free memory.
    """
    name, key = declaration.name, declaration.key()
    spec = EngineSpec(
        name=name,
        nbytes=declaration.memory,
        residual_bytes=declaration.residual or 0,
        methods=_methods(declaration),
        canary=declaration.canary,
        patience=Patience(declaration.sleep_s, declaration.wake_s, declaration.canary_s, declaration.settle_s),
    )
    servers = []
    for index, server in enumerate(declaration.servers):
        connection = Connection(name, server.url, key=key)
        memo = state_dir / "engines" / f"{name}-{index}.json"
        servers.append(Server(connection, _control(declaration, connection, memo), server.devices))
    return EngineService(spec, servers, probe=probe)


def _methods(declaration: EngineDeclaration) -> dict[str, EngineMethod]:
    model, shapes = declaration.model, {**SHAPES[declaration.kind], **declaration.methods}
    own = {name: method_of(name, shape, model) for name, shape in shapes.items()}
    return {"logprob": TEACHERS[declaration.kind](model), **own}


def _control(declaration: EngineDeclaration, connection: Connection, memo: Path) -> Control:
    if isinstance(declaration, VllmDeclaration):
        return VllmControl(connection, declaration.level)
    return SglangControl(connection, memo)
