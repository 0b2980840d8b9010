"""A sequence classifier as a reward model: one number per pair of texts, or the labels' probabilities per text."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tangram_tasks.errors import ConfigurationError
from workers import payloads
from workers.torch_service import Method, finite


class Classifier:
    """Asks a module that returns logits per label.

    A pair is shown as a conversation (user, assistant) if the tokenizer has a chat template, else as two segments.

    Args:
        name: of the service, for messages.
        tokenizer: the model's.
        config: the model's; its padding token is set if it has none.
        max_tokens: longer texts are cut.
        label: of a model with several labels: the one whose probability is the score.

    Raises:
        ConfigurationError: `label` is missing or out of range.
    """

    def __init__(self, name: str, tokenizer: Any, config: Any, *, max_tokens: int, label: int | None = None) -> None:
        self._name = name
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._lock = threading.Lock()  # padding is state of the tokenizer
        labels = int(config.num_labels)
        if labels > 1 and (label is None or not 0 <= label < labels):
            raise ConfigurationError(
                f"it has {labels} labels: set label, from 0 to {labels - 1}, for the one that scores"
            )
        self._label = label if labels > 1 else None
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        if config.pad_token_id is None:  # it finds a sequence's last token by it
            config.pad_token_id = tokenizer.pad_token_id

    def methods(self, batch: int) -> dict[str, Method]:
        """Return `score` (pairs) and `classify` (texts)."""
        return {
            "score": Method(partial(payloads.pairs, "score"), self.score, batch=batch),
            "classify": Method(partial(payloads.texts, "classify"), self.classify, batch=batch),
        }

    def score(self, module: nn.Module, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the only logit of each pair, or the probability of the chosen label."""
        if self._tokenizer.chat_template:
            chats = [self._conversation(*pair) for pair in pairs]
            logits = self._logits(module, chats, special=False)  # the template has written them
        else:
            logits = self._logits(module, [left for left, _ in pairs], [right for _, right in pairs])
        column = logits[:, 0] if self._label is None else logits.softmax(-1)[:, self._label]
        return finite(self._name, column.tolist())

    def classify(self, module: nn.Module, texts: Sequence[str]) -> list[list[float]]:
        """Return each text's probabilities by label; of a model with one label, its logit."""
        logits = self._logits(module, list(texts))
        rows = logits if self._label is None else logits.softmax(-1)
        return [finite(self._name, row) for row in rows.tolist()]

    def _conversation(self, prompt: str, answer: str) -> str:
        turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
        text: str = self._tokenizer.apply_chat_template(turns, tokenize=False)
        return text

    def _logits(self, module: nn.Module, *sides: list[str], special: bool = True) -> Tensor:
        with self._lock:
            batch = self._tokenizer(
                *sides,
                add_special_tokens=special,
                padding=True,
                truncation=True,
                max_length=self._max_tokens,
                return_tensors="pt",
            )
        device: torch.device = next(module.parameters()).device
        logits: Tensor = module(**batch.to(device)).logits
        return logits.float()
