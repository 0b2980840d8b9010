"""Runs the main job twice on this machine, per action and with static reservations, and compares the two."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from compose.demo.api_server import SearchServer
from compose.demo.checks import check_api, check_batch
from compose.demo.codebase import project_files
from compose.demo.episode import Pace, Step, draw_episodes
from compose.demo.machine import PROVIDER, Machine, Mode, missing_reward_modules
from compose.demo.outcome import Batch
from compose.demo.page_ins import count_page_ins
from compose.demo.rollout import Rollout
from compose.demo.summary import Summary
from compose.embedded import Stack
from compose.image import build_base_image
from monitoring.report import BatchReport, build_report
from tangram_tasks.app import TangramApp
from tangram_tasks.errors import ConfigurationError
from workers.docker_engine import connect

IMAGE = "tangram-base:latest"
PACE = Pace()

#: Tangram first: what the machine then has in its caches is to the static run's advantage.
MODES: tuple[Mode, ...] = ("tangram", "static")

#: Seconds until a stack must run. The very first one converts a model's weights, which took 34 s on 2 busy cores.
READY_LIMIT = 180.0

#: Seconds per trajectory of the batch after which one counts as stuck; on 2 quiet cores, each adds 9 statically.
PATIENCE = 30.0


def run_demo(
    *, lite: bool, trajectories: int, seed: int, output: Path, pace: Pace = PACE, console: Console | None = None
) -> int:
    """Run the demo.

    Args:
        lite: without reward models.
        trajectories: size of the batch.
        seed: of the workload.
        output: folder for the report; made when needed.
        pace: how the workload is cut.
        console: where to print.

    Returns:
        0 if every result was right, else 1.

    Raises:
        ConfigurationError: something it needs is missing; the message says what to do.
    """
    console = console or Console()
    _make_folder(output)
    missing = [] if lite else missing_reward_modules()
    machine = Machine.this(rewards=not lite and not missing)
    console.print(_headline(machine, trajectories, lite, missing), highlight=False)
    _build_image(console)
    demo = Demo(machine, draw_episodes(trajectories, seed, pace), seed, output / "state", console)
    batches = {mode: demo.run(mode) for mode in MODES}
    summary = Summary(
        machine={**asdict(machine), "units": machine.units, "static_share": machine.share},
        seed=seed,
        static=demo.report("static", batches["static"]),
        tangram=demo.report("tangram", batches["tangram"]),
        outcomes={mode: batch.outcomes for mode, batch in batches.items()},
        problems=demo.problems,
        notes=_notes(machine),
    )
    summary.show(console)
    for path in summary.write(output):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
    return 1 if summary.problems else 0


class Demo:
    """The same batch, to be run in several modes.

    Args:
        machine: how it is divided.
        episodes: one plan per trajectory.
        seed: of the search API's latencies.
        state: folder for logs and converted model weights, kept for the next run.
        console: where progress is shown.
    """

    def __init__(
        self, machine: Machine, episodes: Sequence[Sequence[Step]], seed: int, state: Path, console: Console
    ) -> None:
        self.problems: list[str] = []
        self._machine = machine
        self._episodes = episodes
        self._seed = seed
        self._state = state
        self._console = console

    def run(self, mode: Mode) -> Batch:
        """Start a stack, run the batch on it, stop it, and check the results."""
        began = time.monotonic()
        self._console.print(f"{mode}: starting broker, scheduler and nodes", highlight=False)
        with (
            SearchServer(project_files(), PROVIDER, seed=self._seed) as search,
            Stack(self._machine.stack(mode, search.url, self._state), ready_limit=READY_LIMIT) as stack,
        ):
            self._console.print(f"{mode}: they run, {time.monotonic() - began:.1f} s later", highlight=False)
            batch = self._roll_out(mode, stack.broker_url)
            batch = batch.model_copy(update={"page_ins": count_page_ins(stack)})
            stats = search.meter.stats()
        found = check_batch(batch, services=self._machine.services)
        found += check_api(stats, PROVIDER, expected=sum(outcome.searches for outcome in batch.outcomes))
        self.problems += [f"{mode}, {problem}" for problem in found]
        return batch

    def _roll_out(self, mode: Mode, broker: str) -> Batch:
        columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console) as progress:
            bar = progress.add_task(mode, total=sum(map(len, self._episodes)))
            rollout = Rollout(
                TangramApp("demo", broker=broker),
                self._machine.sharing(mode),
                rewards=bool(self._machine.services),
                image=IMAGE,
                limit=PATIENCE * (4 + len(self._episodes)),
            )
            return rollout.run(self._episodes, lambda: progress.advance(bar))

    def report(self, mode: Mode, batch: Batch) -> BatchReport:
        """Sum up a batch."""
        return build_report(
            mode,
            batch.reports,
            capacity=self._machine.capacity(mode),
            wall_s=batch.wall_s,
            cpu_unit=self._machine.cpu_unit,
            reserved={**batch.reserved, **self._machine.reserved(mode, batch.wall_s)},
            page_ins=batch.page_ins,
        )


def _build_image(console: Console) -> None:
    """Build the sandboxes' image; without a Docker engine the CPU node takes bubblewrap, or says what to do."""
    try:
        connect().close()
    except ConfigurationError as error:
        console.print(f"No Docker: {error}. Trying bubblewrap instead.", markup=False, highlight=False)
        return
    build_base_image(IMAGE, say=lambda line: console.print(f"image: {line}", markup=False, highlight=False))


def _make_folder(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make the output folder {output}: {error.strerror}") from None


def _headline(machine: Machine, trajectories: int, lite: bool, missing: Sequence[str]) -> str:
    lines = [f"{trajectories} trajectories on {machine.cores} cores ({machine.units} units of {machine.cpu_unit:g})"]
    if lite:
        lines.append("Lite: without reward models, so the report has no gpu and no rewards.")
    elif missing:
        lines.append(
            f"Without reward models, because these are missing: {', '.join(missing)}. `make demo` installs them."
        )
    return "\n".join(lines)


def _notes(machine: Machine) -> list[str]:
    notes = [
        "Real: sandboxes, their CPU limits, shell and file actions, the test-suite, HTTP calls, all queues.",
        "Replayed: some commands; durations and CPU shares are drawn from measured agent sessions (swe.json).",
        "Simulated: the model's generation, as a pause drawn from the same source, scaled and capped.",
        f"static: each trajectory reserves {machine.share} CPU units for life; its first action waits for them.",
        "static: the API quota is split evenly among the trajectories that live.",
    ]
    if machine.services:
        notes.append(
            "Reward models are real and run on this CPU. Devices are emulated: "
            f"{machine.devices('tangram')} for tangram, which pages, {machine.devices('static')} for static."
        )
    return notes
