"""Tiny random models in Hugging Face folders. Needs torch and transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
import torch

from workers.model_files import offline_transformers

WORDS = ("[PAD]", "[UNK]", "the", "cat", "dog", "sat", "ran", "yes", "no", "[BOS]")
TEMPLATE = "{% for turn in messages %}{{ turn['role'] }} {{ turn['content'] }} {% endfor %}"


def classifier(folder: Path, labels: int = 1, **config: Any) -> Path:
    """A BERT with a head."""
    transformers = offline_transformers()
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    chosen = transformers.BertConfig(vocab_size=len(WORDS), num_labels=labels, **sizes, **config)
    transformers.BertForSequenceClassification(chosen).eval().save_pretrained(folder)
    return _with_tokenizer(folder)


def chat_classifier(folder: Path) -> Path:
    """A Llama with a head and a chat template, without a padding token."""
    transformers = offline_transformers()
    torch.manual_seed(2)
    transformers.LlamaForSequenceClassification(_llama(transformers, num_labels=1)).eval().save_pretrained(folder)
    return _with_tokenizer(folder, template=TEMPLATE)


def chat_classifier_with_start(folder: Path) -> Path:
    """Another one, whose tokenizer and template both put a start token in front."""
    transformers = offline_transformers()
    torch.manual_seed(2)
    transformers.LlamaForSequenceClassification(_llama(transformers, num_labels=1)).eval().save_pretrained(folder)
    return _with_tokenizer(folder, template="[BOS] " + TEMPLATE, start=True)


def absolute_language_model(folder: Path) -> Path:
    """A GPT-2: its positions are learned, each by itself."""
    transformers = offline_transformers()
    torch.manual_seed(4)
    config = transformers.GPT2Config(vocab_size=len(WORDS), n_positions=64, n_embd=16, n_layer=2, n_head=2)
    transformers.GPT2LMHeadModel(config).eval().save_pretrained(folder)
    return _with_tokenizer(folder)


def language_model(folder: Path) -> Path:
    """A Llama."""
    transformers = offline_transformers()
    torch.manual_seed(3)
    transformers.LlamaForCausalLM(_llama(transformers)).eval().save_pretrained(folder)
    return _with_tokenizer(folder)


def _llama(transformers: Any, **config: Any) -> Any:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return transformers.LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=64, **sizes, **config)


def _with_tokenizer(folder: Path, template: str | None = None, *, start: bool = False) -> Path:
    transformers = offline_transformers()
    model: Any = tokenizers.models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    splitter: Any = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.pre_tokenizer = splitter
    if start:
        special = [("[BOS]", WORDS.index("[BOS]"))]
        post: Any = tokenizers.processors.TemplateProcessing(single="[BOS] $A", special_tokens=special)
        tokenizer.post_processor = post
        tokenizer.add_special_tokens(["[BOS]"])
    padding = {"pad_token": "[PAD]"} if template is None else {"eos_token": "[PAD]"}
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", **padding)
    if template is not None:
        wrapped.chat_template = template
    wrapped.save_pretrained(folder)
    return folder
