"""Nine small teachers of different sizes: Llama-shaped, over bytes, with random weights that are the same every time.

They stand in for nine distillation teachers, which no package brings; the arithmetic and the paging are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from compose.demo.teachers_list import WIDTHS
from workers import payloads
from workers.model_files import offline_transformers
from workers.torch_service import LoadContext, Method, Model

Item = tuple[bytes, bytes]


def network(number: int) -> nn.Module:
    """Return the teacher of that number."""
    transformers = offline_transformers()
    torch.manual_seed(number)
    width = WIDTHS[number]
    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=4,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        max_position_embeddings=512,
    )
    module: nn.Module = transformers.AutoModelForCausalLM.from_config(config).eval()
    return module.requires_grad_(False)


def items(payload: dict[str, Any]) -> list[Item]:
    """Return each pair's bytes. Raises InvalidAction."""
    return [(prompt.encode() or b"\n", text.encode()) for prompt, text in payloads.answers("logprob", payload)]


def logprob(module: nn.Module, pairs: Sequence[Item]) -> list[float]:
    """Return the mean natural log-probability of each answer's bytes, given its prompt."""
    return [_mean(module, prompt, text) for prompt, text in pairs]


def _mean(module: nn.Module, prompt: bytes, text: bytes) -> float:
    tokens = torch.tensor([list(prompt + text)], device=next(module.parameters()).device)
    rows = module(input_ids=tokens[:, :-1], use_cache=False).logits[0, len(prompt) - 1 :].log_softmax(-1)
    return float(rows.gather(-1, tokens[0, len(prompt) :].unsqueeze(-1)).mean())


def _load(number: int, context: LoadContext) -> Model:
    return Model(network(number), {"logprob": Method(items, logprob)})


teacher_1, teacher_2, teacher_3, teacher_4, teacher_5, teacher_6, teacher_7, teacher_8, teacher_9 = (
    partial(_load, number) for number in range(len(WIDTHS))
)
