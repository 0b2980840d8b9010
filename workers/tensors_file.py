"""Services from one safetensors file and a function that builds the module for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch

from tangram_tasks.errors import ConfigurationError
from workers.safetensors_files import check_whole
from workers.torch_service import LoadContext, Model


@dataclass(frozen=True, slots=True)
class TensorsFile:
    """Loads a file into the module that a factory builds.

    Args:
        file: the weights.
        factory: returns the model, with any weights.
    """

    file: Path
    factory: Callable[[LoadContext], Model]

    def load(self, context: LoadContext) -> Model:
        """Load it. Raises ConfigurationError naming the weights that do not match."""
        check_whole(self.file)
        model = self.factory(context)
        tensors: dict[str, Any] = safetensors.torch.load_file(self.file)
        try:
            model.module.load_state_dict(tensors, strict=True, assign=True)
        except RuntimeError as error:
            raise ConfigurationError(f"{self.file} does not match the module of its factory: {error}") from None
        return model
