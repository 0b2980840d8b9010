"""Things that users name as "module:name"."""

from __future__ import annotations

import importlib
import re
from typing import Any

from tangram_tasks.errors import ConfigurationError

PATTERN = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"


def is_name(text: str) -> bool:
    """Whether a text has the form "module:name"."""
    return re.fullmatch(PATTERN, text) is not None


def imported(path: str, who: str) -> Any:
    """Return what "module:name" leads to. Raises ConfigurationError; `who` begins its message."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{who}: {path} cannot be imported: {error}") from error
