"""A causal language model as a teacher: the mean log-probability that it gives to an answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tangram_tasks.errors import InvalidAction
from workers import payloads
from workers.torch_service import Method, finite


class Teacher:
    """Tokenises pairs of prompt and answer, and reads the log-probabilities of the answers' tokens.

    Args:
        name: of the service, for messages.
        tokenizer: the model's.
        max_tokens: prompt and answer together must have fewer.
    """

    def __init__(self, name: str, tokenizer: Any, max_tokens: int) -> None:
        self._name = name
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._lock = threading.Lock()

    def methods(self, batch: int = 8) -> dict[str, Method]:
        """Return `logprob`, also as `score`."""
        logprob = Method(self.items, self.logprob, batch=batch)
        return {"logprob": logprob, "score": logprob}

    def items(self, payload: dict[str, Any]) -> list[tuple[list[int], list[int]]]:
        """Return the tokens of each prompt and answer. Raises InvalidAction."""
        pairs = payloads.answers("logprob", payload)
        with self._lock:
            prompts, answers = (
                [self._tokenizer(text, add_special_tokens=False)["input_ids"] for text in side]
                for side in (zip(*pairs, strict=True) if pairs else ((), ()))
            )
        for index, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
            if len(prompt) + len(answer) >= self._max_tokens:
                raise InvalidAction(
                    f"method logprob: pair {index} has {len(prompt) + len(answer)} tokens, and {self._name} takes "
                    f"fewer than {self._max_tokens}"
                )
        start = self._start()  # so that the first token of an answer without prompt has a context
        return [(prompt or [start], answer) for prompt, answer in zip(prompts, answers, strict=True)]

    def logprob(self, module: nn.Module, items: Sequence[tuple[list[int], list[int]]]) -> list[float]:
        """Return the mean natural log-probability of each answer's tokens, given its prompt."""
        tokens, mask = self._left_padded(items, next(module.parameters()).device)
        longest = max(len(answer) for _, answer in items)
        logits: Tensor = module(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),  # else padding would shift positions that are learned
            use_cache=False,
            logits_to_keep=longest + 1,  # all others would take 200 kB per token
        ).logits
        predicted = logits[:, :-1].float().log_softmax(-1)
        chosen = predicted.gather(-1, tokens[:, -longest:].unsqueeze(-1)).squeeze(-1)
        return finite(self._name, (chosen[row, -len(answer) :].mean().item() for row, (_, answer) in enumerate(items)))

    def _left_padded(self, items: Sequence[tuple[list[int], list[int]]], device: torch.device) -> tuple[Tensor, Tensor]:
        """Return tokens and mask with the answers' ends aligned."""
        width = max(len(prompt) + len(answer) for prompt, answer in items)
        rows = [[*prompt, *answer] for prompt, answer in items]
        padding = self._padding()
        tokens = torch.tensor([[padding] * (width - len(row)) + row for row in rows], device=device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
        return tokens, mask

    def _start(self) -> int:
        return _first(self._tokenizer.bos_token_id, self._tokenizer.eos_token_id, 0)

    def _padding(self) -> int:
        return _first(self._tokenizer.pad_token_id, self._tokenizer.eos_token_id, 0)


def _first(*candidates: int | None) -> int:
    return next(candidate for candidate in candidates if candidate is not None)
