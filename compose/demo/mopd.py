"""Runs a distillation batch twice: nine teachers paged onto two devices, and each on a device of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from compose.demo.distillation import Distillation, Request, requests
from compose.demo.machine import Mode, missing_modules
from compose.demo.outcome import Batch
from compose.demo.page_ins import count_page_ins
from compose.demo.shares import PerAction, PerService
from compose.demo.summary import Summary
from compose.demo.teachers_list import NAMES, SERVICES
from compose.embedded import Stack
from compose.stack_config import GpuNodeConfig, StackConfig
from monitoring.report import BatchReport, build_report
from tangram_tasks.app import TangramApp
from tangram_tasks.errors import ConfigurationError

#: Devices and MiB of each. The teachers take 340 MiB together, the largest 81.
DEVICES: dict[Mode, int] = {"tangram": 2, "static": len(NAMES)}
BUDGET_MIB = 100
#: Of the emulated link, in both runs.
LINK_GBPS = 1.0
#: Tangram first: what the machine then has in its caches is to the static run's advantage.
MODES: tuple[Mode, ...] = ("tangram", "static")
READY_LIMIT = 120.0
LIMIT = 120.0  # seconds until a request counts as failed

_NOTES = (
    "Teachers: nine small Llama-shaped models with random weights, since no package brings nine.",
    "Real: their arithmetic, on the CPU, the paging, all queues.",
    f"Emulated: {DEVICES['tangram']} devices for tangram, {DEVICES['static']} for static; links of {LINK_GBPS:g} GB/s.",
    "Arrivals are drawn from the workload mopd (fitted to published times) and squeezed into seconds.",
    "static: a teacher answers one request at a time on its own device; requests wait for it.",
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the demo is.

    Args:
        trajectories: requests.
        seconds: in which they arrive.
    """

    trajectories: int = 120
    seconds: float = 20.0


def run_mopd(*, scale: Scale, seed: int, output: Path, console: Console | None = None) -> int:
    """Run the demo.

    Args:
        scale: how large.
        seed: of the arrivals.
        output: folder for the report; made when needed.
        console: where to print.

    Returns:
        0 if every answer equals that of a teacher that was never paged, else 1.

    Raises:
        ConfigurationError: something it needs is missing; the message says what to do.
    """
    missing = missing_modules("torch", "transformers")
    if missing:
        raise ConfigurationError(f"the workload mopd needs {', '.join(missing)}: install tangram-rl[gpu,rewards]")
    console = console or Console()
    output.mkdir(parents=True, exist_ok=True)
    batch = requests(scale.trajectories, seed, scale.seconds)
    console.print(f"{len(batch)} requests to {len(NAMES)} teachers", highlight=False)
    runs = {mode: _run(mode, batch, output / "state", console) for mode in MODES}
    expected = _never_paged(batch)
    summary = Summary(
        machine={"cores": len(os.sched_getaffinity(0)), "devices": DEVICES, "budget_mib": BUDGET_MIB},
        seed=seed,
        static=_report("static", runs["static"][0]),
        tangram=_report("tangram", runs["tangram"][0]),
        outcomes={mode: found.outcomes for mode, (found, _) in runs.items()},
        problems=[
            f"{mode}, {problem}"
            for mode, (found, answers) in runs.items()
            for problem in problems(found, answers, expected)
        ],
        notes=list(_NOTES),
    )
    summary.show(console)
    for path in summary.write(output):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
    return 1 if summary.problems else 0


def problems(batch: Batch, answers: dict[int, list[float]], expected: Sequence[Sequence[float]]) -> list[str]:
    """Return what is wrong with a run, one line each; answers must be equal bit for bit."""
    found = [f"trajectory {one.number}: {one.error}" for one in batch.outcomes if one.error]
    for number, answer in answers.items():
        if answer != expected[number]:
            found.append(f"trajectory {number}: {answer} instead of {expected[number]}")
    return found


def _run(mode: Mode, batch: Sequence[Request], state: Path, console: Console) -> tuple[Batch, dict[int, list[float]]]:
    began = time.monotonic()
    console.print(f"{mode}: starting broker, scheduler and node", highlight=False)
    node = GpuNodeConfig(
        name="gpu-1", devices=DEVICES[mode], budget_mib=BUDGET_MIB, link_gbps=LINK_GBPS, threads=1, services=SERVICES
    )
    columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Stack(StackConfig(persistent=False, state_dir=state, gpu=(node,)), ready_limit=READY_LIMIT) as stack:
        console.print(f"{mode}: they run, {time.monotonic() - began:.1f} s later", highlight=False)
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task(mode, total=len(batch))
            sharing = PerAction() if mode == "tangram" else PerService(NAMES)
            distillation = Distillation(TangramApp("demo", broker=stack.broker_url), sharing, LIMIT)
            found = distillation.run(batch, lambda: progress.advance(bar))
        found = found.model_copy(update={"page_ins": count_page_ins(stack)})
    return found, distillation.answers


def _report(mode: Mode, batch: Batch) -> BatchReport:
    reserved = {"gpu": DEVICES[mode] * batch.wall_s} if mode == "static" else {}
    capacity = {"gpu": DEVICES[mode]}
    return build_report(
        mode, batch.reports, capacity=capacity, wall_s=batch.wall_s, reserved=reserved, page_ins=batch.page_ins
    )


def _never_paged(batch: Sequence[Request]) -> list[list[float]]:
    """Return the answers of teachers that stay where they are, with as many threads as on the nodes."""
    import torch

    from compose.demo import teachers

    torch.set_num_threads(1)
    models = {name: teachers.network(number) for number, name in enumerate(NAMES)}
    with torch.inference_mode():
        return [
            teachers.logprob(models[one.teacher], teachers.items({"pairs": [list(pair) for pair in one.pairs]}))
            for one in batch
        ]
