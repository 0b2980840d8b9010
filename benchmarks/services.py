"""Six services on a device that holds two: residency-first with queue-aware page-out, against FCFS with LRU.

The scheduler's core and the pager are real, the link is emulated, the models compute on the CPU. Beside the two:
residency-first with LRU, and one device for each service, which is what frameworks reserve. The trace mixes bursts of
batches that score with one service each and single calls of any.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import torch

from benchmarks.gpu_trace import Outcome, Player, Request
from benchmarks.machine import machine
from benchmarks.service_models import NAMES, SERVICES, WIDTHS, answer, network
from workers.gpu_node import GpuNode
from workers.page_out import PageOutName

ACTIONS = 240
SECONDS = 4.0  # in which they arrive
LINK_GBPS = 0.25
#: MiB of the shared device: it holds any two services, and three only if they are the smallest.
BUDGET_MIB = 103
REACH = 1.7
ROUNDS = 3


def run() -> dict[str, Any]:
    """Measure; the value is the mean ACT of FCFS with LRU by that of residency-first with queue-aware page-out."""
    torch.set_num_threads(1)
    rounds = []
    for seed in range(ROUNDS):
        trace = mixed_trace(seed)
        outcomes = {
            "ours": _shared(trace, "residency", "queue_aware"),
            "ours_lru": _shared(trace, "residency", "lru"),
            "fcfs_lru": _shared(trace, "min", "lru"),
            "reserved": _reserved(trace),
        }
        _check(trace, outcomes)
        rounds.append({name: _summary(outcome) for name, outcome in outcomes.items()})
    ratios = [one["fcfs_lru"]["mean_act_s"] / one["ours"]["mean_act_s"] for one in rounds]
    value = statistics.median(ratios)
    return {
        "name": "services",
        "value": round(value, 2),
        "unit": "x mean ACT of FCFS + LRU",
        "reach": f">= {REACH:g} x",
        "holds": value >= REACH,
        "n": ROUNDS,
        "spread": {"low": round(min(ratios), 2), "high": round(max(ratios), 2)},
        "machine": machine(),
        "detail": {
            "actions": ACTIONS,
            "services": len(NAMES),
            "widths": WIDTHS,
            "link_gigabytes_per_s": LINK_GBPS,
            "devices": {"ours": 1, "ours_lru": 1, "fcfs_lru": 1, "reserved": len(NAMES)},
            "answers_bit_equal": True,
            "rounds": rounds,
        },
    }


def mixed_trace(seed: int) -> list[Request]:
    """Return requests by arrival: half in bursts of one service, half single calls, popular services more often."""
    random = Random(seed)
    weights = [1 / (rank + 1) for rank in range(len(NAMES))]
    arrivals: list[tuple[float, str]] = []
    while len(arrivals) < ACTIONS // 2:
        at, (service,) = random.uniform(0, SECONDS), random.choices(NAMES, weights)
        arrivals += [(at + random.uniform(0, 0.2), service) for _ in range(12)]
    while len(arrivals) < ACTIONS:
        (service,) = random.choices(NAMES, weights)
        arrivals.append((random.uniform(0, SECONDS), service))
    return [
        Request(at, service, tuple(random.uniform(-1, 1) for _ in range(4)))
        for at, service in sorted(arrivals[:ACTIONS])
    ]


def _shared(trace: list[Request], policy: str, page_out: PageOutName) -> Outcome:
    with ExitStack() as stack:
        node = _node(stack, "shared", SERVICES, budget_mib=BUDGET_MIB, page_out=page_out)
        return Player({"shared": node}, policy).play(trace)


def _reserved(trace: list[Request]) -> Outcome:
    with ExitStack() as stack:
        nodes = {name: _node(stack, name, (service,)) for name, service in zip(NAMES, SERVICES, strict=True)}
        return Player(nodes, "min").play(trace)


def _node(stack: ExitStack, name: str, services: tuple[str, ...], **options: Any) -> GpuNode:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tangram-bench-")))
    node = GpuNode(node=name, state_dir=folder, services=services, devices=1, link_gbps=LINK_GBPS, threads=1, **options)
    stack.callback(node.stop)
    return node


def _check(trace: list[Request], outcomes: dict[str, Outcome]) -> None:
    """Raise RuntimeError if an answer differs from that of a model that was never paged."""
    models = {name: network(number) for number, name in enumerate(NAMES)}
    with torch.inference_mode():
        expected = [answer(models[one.service], one.numbers) for one in trace]
    for name, outcome in outcomes.items():
        if outcome.answers != expected:
            raise RuntimeError(f"{name}: an answer differs from that of a model that was never paged")


def _summary(outcome: Outcome) -> dict[str, float]:
    acts = sorted(outcome.acts)
    return {
        "mean_act_s": round(statistics.mean(acts), 4),
        "p50_act_s": round(statistics.median(acts), 4),
        "p99_act_s": round(acts[round(0.99 * (len(acts) - 1))], 4),
        "step_s": round(outcome.seconds, 2),
        "page_ins": outcome.page_ins,
        "megabytes_in": round(outcome.bytes_in / 1e6, 1),
    }
