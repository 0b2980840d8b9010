"""Reads services from a YAML file; a mistake is named with its line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tangram_tasks.errors import ConfigurationError
from workers.service_declaration import ServiceDeclaration


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    services: list[Annotated[ServiceDeclaration, Field(discriminator="kind")]] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        twice = [name for name, count in Counter(one.name for one in self.services).items() if count > 1]
        if twice:
            raise ValueError(f"two services are called {', '.join(twice)}")
        return self


def read_services(file: Path) -> list[ServiceDeclaration]:
    """Return the services of a file; relative paths in it start at its folder.

    Raises ConfigurationError naming file, line and field.
    """
    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{file} is no YAML: {' '.join(str(error).split())}") from None
    try:
        content = None if root is None else yaml.SafeLoader("").construct_document(root)
        found = _File.model_validate(content).services
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{file} is no plain YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        rows = (
            f"{file}:{_line(root, row['loc'])}: {_place(row['loc'])}: {row['msg'].removeprefix('Value error, ')}"
            for row in error.errors()
        )
        raise ConfigurationError("; ".join(rows)) from None
    return [one.relative_to(file.parent) for one in found]


def _line(node: Any, steps: Iterable[int | str]) -> int:
    """Return the line of the deepest node on the way that exists: pydantic's way also names the kinds of unions."""
    for step in steps:
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == step), node)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
    return 1 if node is None else int(node.start_mark.line) + 1


def _place(steps: tuple[int | str, ...]) -> str:
    return ".".join(map(str, steps)) or "file"
