"""Reads a file that declares providers: YAML or TOML, one table per provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from compose.stack_config import read_toml
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.provider import Provider, providers_from


def read_providers(file: Path) -> dict[str, Provider]:
    """Return the providers that a file declares, by name.

    Args:
        file: `.yaml` or `.yml`, else TOML; see `tangram_tasks.provider.Provider` for the fields.

    Raises:
        ConfigurationError: it cannot be read, or a field is wrong; the message names provider and field.
    """
    rows = _read_yaml(file) if file.suffix in (".yaml", ".yml") else read_toml(file)
    if not rows:
        raise ConfigurationError(f"{file} declares no provider")
    return providers_from(rows)


def _read_yaml(file: Path) -> Mapping[str, Any]:
    try:
        rows = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None
    if rows is not None and not isinstance(rows, dict):
        raise ConfigurationError(f"{file} must have one table per provider")
    return rows or {}
