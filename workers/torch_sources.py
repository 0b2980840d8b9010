"""From a declaration to a service that computes in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from tangram_tasks.errors import ConfigurationError
from workers.device_ops import DeviceOps
from workers.hf_folder import HfFolder
from workers.imported import imported
from workers.service_declaration import PACKAGED, TorchDeclaration
from workers.tensors_file import TensorsFile
from workers.torch_service import LoadContext, Model, ServiceSpec, TorchService

Load = Callable[[LoadContext], Model]


def load_torch(declaration: TorchDeclaration, state_dir: Path, ops: DeviceOps) -> TorchService:
    """Load a declared service. Raises ConfigurationError naming it."""
    spec = ServiceSpec(declaration.name, _loader(declaration), declaration.canary, declaration.sizes)
    context = LoadContext(state_dir, accelerated=ops.device.type != "cpu")
    return TorchService.load(spec, context, ops)


def _loader(declaration: TorchDeclaration) -> Load:
    name, source = declaration.name, declaration.source
    if source in PACKAGED:
        return _function(name, f"{PACKAGED[source]}:load")
    if declaration.is_function:
        return _function(name, source)
    if declaration.factory is not None:
        return TensorsFile(Path(source), _function(name, declaration.factory)).load
    if not declaration.is_folder:
        raise ConfigurationError(
            f"service {name}: unknown source {source!r}: use {', '.join(PACKAGED)}, or a path with /"
        )
    return HfFolder(
        name,
        Path(source),
        declaration.task,
        declaration.dtype,
        declaration.max_tokens,
        declaration.batch,
        declaration.label,
        declaration.mutable,
    ).load


def _function(name: str, path: str) -> Load:
    found = imported(path, f"service {name}")
    if not callable(found):
        raise ConfigurationError(f"service {name}: {path} is not a function")
    return cast("Load", found)
