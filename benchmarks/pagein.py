"""Page-in of a 455 MB reward model against copying the same bytes, in one run, interleaved.

The model is a randomly weighted Llama with a score head. Beside the claim: moving tensor by tensor as `.to()` does, a
slab that was never touched, page-out, and a page-in that overlaps with the first call over an emulated link.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.machine import machine
from workers.device_ops import CpuOps
from workers.host_image import HostImage
from workers.model_files import offline_transformers
from workers.replica import Replica

ROUNDS = 11
#: Neither of the two that are compared always follows the other.
ORDERS = (
    ("copy", "page_in", "page_out", "per_tensor", "fresh"),
    ("page_in", "copy", "page_out", "per_tensor", "fresh"),
)
REACH = 1.15
LINK_GBPS = 1.0
TOKENS = 32
#: The shape of the model: 114 million parameters in float32.
SHAPE = {
    "vocab_size": 16_000,
    "hidden_size": 960,
    "intermediate_size": 2_560,
    "num_hidden_layers": 10,
    "num_attention_heads": 15,
    "num_key_value_heads": 5,
    "num_labels": 1,
    "pad_token_id": 0,
}


def run() -> dict[str, Any]:
    """Measure; the value is the fastest page-in by the fastest copy of the same bytes into the same memory.

    What others do on the machine only makes either longer; the medians in the detail tell how busy it was.
    """
    module = reward_model()
    image = HostImage.from_module(module, CpuOps())
    times = _copies(module, image)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = [ours / theirs for ours, theirs in zip(times["page_in"], times["copy"], strict=True)]
    value = min(times["page_in"]) / min(times["copy"])
    return {
        "name": "pagein",
        "value": round(value, 3),
        "unit": "x torch.copy_",
        "reach": f"<= {REACH:g} x",
        "holds": value <= REACH,
        "n": ROUNDS,
        "spread": {"low": round(min(ratios), 3), "high": round(max(ratios), 3)},
        "machine": machine(),
        "detail": {
            "megabytes": round(image.nbytes / 1e6, 1),
            "tensors": len(image.segments),
            "milliseconds": {name: round(1e3 * median, 2) for name, median in medians.items()},
            "fastest_milliseconds": {name: round(1e3 * min(values), 2) for name, values in times.items()},
            "gigabytes_per_s": {
                name: round(image.nbytes / medians[name] / 1e9, 2)
                for name in ("copy", "page_in", "per_tensor", "fresh")
            },
            "overlap": _overlap(module, image),
        },
    }


def reward_model(seed: int = 0) -> nn.Module:
    """Return a Llama with a score head and random weights."""
    transformers = offline_transformers()
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(**SHAPE)
    module: nn.Module = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    return module.requires_grad_(False)


def _copies(module: nn.Module, image: HostImage) -> dict[str, list[float]]:
    """Return seconds of each way, measured in turns so that the machine's mood meets all of them."""
    ops = CpuOps()
    memory = ops.arena(image.nbytes)  # of both: other pages alone made up to a fifth of difference
    replica = Replica("pagein", copy.deepcopy(module), image, ops, memory)
    ways: dict[str, Callable[[], object]] = {
        "copy": lambda: memory.copy_(image.buffer),
        "page_in": lambda: replica.page_in(0),
        "page_out": replica.page_out,
        "per_tensor": lambda: [view.clone() for _, view in image.views(image.buffer)],
        "fresh": lambda: torch.empty(image.nbytes, dtype=torch.uint8).copy_(image.buffer),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name in ORDERS[turn % len(ORDERS)]:
            took = _seconds(ways[name])
            if turn:  # the first round warms up
                times[name].append(took)
    return times


def _overlap(module: nn.Module, image: HostImage) -> dict[str, Any]:
    """Return milliseconds from the begin of a page-in to the first answer, with and without overlap."""
    ops = CpuOps(LINK_GBPS)
    tokens = torch.randint(1, SHAPE["vocab_size"], (1, TOKENS))
    replicas = {
        name: Replica(
            "pagein", copy.deepcopy(module), image, ops, ops.arena(image.nbytes), overlap=name == "overlapped"
        )
        for name in ("sequential", "overlapped")
    }
    answers: list[Tensor] = []
    times: dict[str, list[float]] = {name: [] for name in replicas}
    for _ in range(3):
        for name, replica in replicas.items():
            times[name].append(_seconds(lambda replica=replica: answers.append(_first_answer(replica, tokens))))  # type: ignore[misc]  # bound now
            replica.page_out()
    if any(not torch.equal(answer, answers[0]) for answer in answers):
        raise RuntimeError("an overlapped call gave another answer")
    medians = {name: round(1e3 * statistics.median(values), 1) for name, values in times.items()}
    return {"link_gigabytes_per_s": LINK_GBPS, "tokens": TOKENS, "milliseconds": medians, "bit_equal": True}


def _first_answer(replica: Replica, tokens: Tensor) -> Tensor:
    replica.page_in(0)
    replica.leased = True
    with torch.inference_mode():
        logits: Tensor = replica.module(input_ids=tokens, use_cache=False).logits
    replica.leased = False
    return logits


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
