"""From what a node's options name to services: packaged ones, own functions, files of declarations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tangram_tasks.errors import ConfigurationError
from workers.engine_sources import engine_service
from workers.engines.engine import MemoryProbe
from workers.engines.memory import free_bytes
from workers.fake_service import FakeService
from workers.imported import imported, is_name
from workers.service import Service
from workers.service_declaration import PACKAGED, FakeDeclaration, ServiceDeclaration, TorchDeclaration
from workers.services_file import read_services

if TYPE_CHECKING:
    from workers.device_ops import DeviceOps


def declared_services(options: Iterable[str]) -> list[ServiceDeclaration]:
    """Return the declarations that a node's options name.

    Args:
        options: each "minilm" or "smollm2"; "name=module:function" where the function takes a LoadContext and returns
            a Model; the path of a *.yaml file; or "module:NAME" of a declaration, or of several, in Python.

    Raises:
        ConfigurationError: one cannot be found or read, or two have the same name.
    """
    found = [one for text in options for one in _declared(text)]
    twice = [name for name, count in Counter(one.name for one in found).items() if count > 1]
    if twice:
        raise ConfigurationError(f"two services have the same name: {', '.join(twice)}")
    return found


def load_service(
    declaration: ServiceDeclaration,
    state_dir: Path,
    ops: DeviceOps | None,
    *,
    probe: MemoryProbe = free_bytes,
) -> Service:
    """Return a declared service.

    Args:
        declaration: what it is.
        state_dir: where converted weights are cached, and what engines were told is remembered.
        ops: of the first device; a service that computes in this process needs them.
        probe: tells a device's free memory, to verify what engines say.

    Raises:
        ConfigurationError: it cannot be loaded; the message names it.
    """
    if isinstance(declaration, FakeDeclaration):
        return FakeService(
            declaration.name,
            declaration.memory,
            page_in_s=declaration.page_in_s,
            item_s=declaration.item_s,
            canary=declaration.canary,
            sizes=declaration.sizes,
        )
    if not isinstance(declaration, TorchDeclaration):
        return engine_service(declaration, state_dir, probe)
    if ops is None:
        raise ConfigurationError(f"service {declaration.name} computes in the node and needs a device for torch")
    from workers.torch_sources import load_torch  # a node without such services needs no torch

    return load_torch(declaration, state_dir, ops)


def _declared(text: str) -> list[ServiceDeclaration]:
    if text in PACKAGED:
        return [TorchDeclaration(name=text, source=text)]
    if text.endswith((".yaml", ".yml")):
        return read_services(Path(text))
    name, equals, path = text.partition("=")
    if equals and name and is_name(path):
        return [TorchDeclaration(name=name, source=path)]
    if is_name(text):
        return _in_python(text)
    known = ", ".join(PACKAGED)
    raise ConfigurationError(
        f"unknown service {text!r}: use {known}, or name=module:function for one of your own; a .yaml file declares "
        "several, and so does module:NAME in Python"
    )


def _in_python(text: str) -> list[ServiceDeclaration]:
    found = imported(text, "services")
    several = list(found) if isinstance(found, list | tuple) else [found]
    if not several or not all(isinstance(one, ServiceDeclaration) for one in several):
        raise ConfigurationError(f"services: {text} holds no declarations of workers.service_declaration")
    return several
