"""Services from a local Hugging Face folder: a sequence classifier, or a causal language model as a teacher.

Nothing is fetched, and no code from the folder runs: weights are safetensors, `trust_remote_code` stays off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from tangram_tasks.errors import ConfigurationError
from workers.classifier import Classifier
from workers.model_files import offline_transformers
from workers.safetensors_files import weights_in
from workers.teacher import Teacher
from workers.torch_service import LoadContext, Model

Task = Literal["sequence_classification", "causal_lm"]
_CLASSES: dict[str, str] = {
    "sequence_classification": "AutoModelForSequenceClassification",
    "causal_lm": "AutoModelForCausalLM",
}
_ENDINGS: dict[str, Task] = {"ForSequenceClassification": "sequence_classification", "ForCausalLM": "causal_lm"}


@dataclass(frozen=True, slots=True)
class HfFolder:
    """Loads a folder.

    Args:
        name: of the service.
        folder: with config.json, *.safetensors and the tokenizer.
        task: None reads it from the folder's config.
        dtype: of the weights, for example "float32"; "auto" takes bfloat16 on GPUs and float32 on CPUs, which
            compute faster in it.
        max_tokens: a classifier cuts longer texts, a teacher refuses them.
        batch: items per run at most.
        label: of a classifier with several labels: the one whose probability is the score.
        mutable: names of buffers that calls change and whose changes must last.
    """

    name: str
    folder: Path
    task: Task | None = None
    dtype: str = "auto"
    max_tokens: int = 2048
    batch: int = 8
    label: int | None = None
    mutable: frozenset[str] = frozenset()

    def load(self, context: LoadContext) -> Model:
        """Load it. Raises ConfigurationError naming what is missing or wrong."""
        weights_in(self.folder)
        task = self.task or _task_of(self.folder)
        transformers = offline_transformers()
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        module = self._module(getattr(transformers, _CLASSES[task]), context)
        if task == "causal_lm":
            methods = Teacher(self.name, tokenizer, self.max_tokens).methods(self.batch)
        else:
            scorer = Classifier(self.name, tokenizer, module.config, max_tokens=self.max_tokens, label=self.label)
            methods = scorer.methods(self.batch)
        return Model(module, methods, self.mutable)

    def _module(self, kind: Any, context: LoadContext) -> nn.Module:
        dtype = self.dtype
        if dtype == "auto":
            dtype = "bfloat16" if context.accelerated else "float32"
        module: nn.Module
        module, found = kind.from_pretrained(
            self.folder,
            local_files_only=True,
            use_safetensors=True,
            dtype=getattr(torch, dtype),
            output_loading_info=True,
        )
        missing = sorted(found["missing_keys"])
        if missing:  # they were filled with random numbers
            raise ConfigurationError(f"{self.folder} lacks the weights {', '.join(missing[:5])}: is it the right task?")
        return module.eval()


def _task_of(folder: Path) -> Task:
    try:
        architectures = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
        return next(task for name in architectures for ending, task in _ENDINGS.items() if name.endswith(ending))
    except (ValueError, LookupError, TypeError, StopIteration):
        raise ConfigurationError(
            f"{folder}/config.json names no architecture that we serve: set task to one of {', '.join(_CLASSES)}"
        ) from None
