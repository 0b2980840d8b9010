"""Where the weights of the packaged models lie, and a cache of converted ones."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tangram_tasks.errors import ConfigurationError


def package_folder(package: str, distribution: str) -> Path:
    """Return a package's folder without importing it: the packages import engines we do not use.

    Raises ConfigurationError naming the extra that installs `distribution`.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"the model package {distribution} is not installed: install tangram-rl[rewards]")
    return Path(spec.submodule_search_locations[0])


def cached_folder(state_dir: Path, name: str, build: Callable[[Path], None]) -> Path:
    """Return `state_dir/models/name`, built once.

    It appears by a rename, so that a reader never sees half of it; of two processes that build it, one wins.

    Args:
        state_dir: created if missing.
        name: must change with whatever the content depends on.
        build: fills an empty folder.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    target = state_dir / "models" / name
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=target.parent))
    except OSError as error:
        raise ConfigurationError(f"converted weights cannot be kept in {target.parent}: {error}") from error
    try:
        build(draft)
        draft.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was first, and its folder is as good
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def offline_transformers() -> Any:
    """Return the package transformers, kept from any network access. Raises ImportError."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # both are read when the package is first imported
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    transformers: Any = importlib.import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    return transformers
