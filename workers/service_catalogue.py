"""From the names in a node's options to service specs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from tangram_tasks.errors import ConfigurationError
from workers import minilm, smollm2
from workers.torch_service import LoadContext, Model, ServiceSpec

PACKAGED = {spec.name: spec for spec in (minilm.SPEC, smollm2.SPEC)}


def service_spec(text: str) -> ServiceSpec:
    """Return the spec of a packaged service, or of an own one.

    Args:
        text: "minilm", "smollm2", or "name=module:function" where the function takes a LoadContext and returns a
            Model.

    Raises:
        ConfigurationError: no such service, module or function.
    """
    if text in PACKAGED:
        return PACKAGED[text]
    name, _, path = text.partition("=")
    module_name, _, function = path.partition(":")
    if not (name and module_name and function):
        known = ", ".join(PACKAGED)
        raise ConfigurationError(f"unknown service {text!r}: use {known}, or name=module:function for one of your own")
    try:
        load = getattr(importlib.import_module(module_name), function)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"service {name}: {path} cannot be imported: {error}") from error
    if not callable(load):
        raise ConfigurationError(f"service {name}: {path} is not a function")
    return ServiceSpec(name, cast("Callable[[LoadContext], Model]", load))
