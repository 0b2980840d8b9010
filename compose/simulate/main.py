"""`tangram simulate`: runs what was asked for and shows it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Literal, TypeVar

import click
from rich.console import Console
from rich.progress import track

from compose.simulate.comparison import Comparison
from compose.simulate.outcome import Outcome
from compose.simulate.picture import load_picture
from compose.simulate.policies import simulate
from compose.simulate.replay import replay
from compose.simulate.report import SimulationReport
from compose.simulate.results import Run, summary
from compose.simulate.tables import tables
from compose.simulate.target import Answer, smallest
from compose.simulate.workloads.registry import Source
from scheduler.core.domain import in_words
from scheduler.record import Lead

T = TypeVar("T")


def run_comparison(
    source: Source, comparison: Comparison, *, malleable: float, as_json: bool, output: Path | None
) -> None:
    """Run every policy on every batch and seed; print tables or JSON, and write the report and pictures.

    Args:
        source: of the batches.
        comparison: what is to be run.
        malleable: share of elastic actions that may be resized, for the report.
        as_json: print the report in JSON and nothing else.
        output: folder for report and pictures, if any.
    """
    runs: list[Run] = []
    pictured: dict[int, dict[str, Outcome]] = {}
    for run, outcome in _tracked(comparison.runs(), comparison.count):
        runs.append(run)
        if run.seed == comparison.seeds[0]:
            pictured.setdefault(run.batch, {})[run.policy] = outcome
    report = SimulationReport(
        workload=source.name,
        about=source.about,
        cluster={batch: comparison.cluster(batch).model_dump(mode="json") for batch in comparison.batches},
        costs_ms=asdict(comparison.costs),
        malleable=malleable,
        runs=runs,
        summary=summary(runs),
    )
    _show(report, as_json=as_json)
    if output is not None:
        _write(output, report, pictured)
        click.echo(f"report and pictures are in {output}", err=True)


def run_target(comparison: Comparison, what: Literal["act", "step"], seconds: float, *, as_json: bool) -> bool:
    """Find the smallest cluster for each policy and print it. Returns whether every policy has one.

    Args:
        comparison: the batches and policies; the nodes are varied.
        what: mean ACT, or mean step, over the seeds.
        seconds: the target.
        as_json: print JSON.
    """
    answers = {
        (batch, policy): _smallest(comparison, batch, policy, what, seconds)
        for batch, policy in _tracked(
            [(batch, policy) for batch in comparison.batches for policy in comparison.policies],
            len(comparison.batches) * len(comparison.policies),
        )
    }
    for (batch, policy), answer in answers.items():
        if as_json:
            click.echo(json.dumps(_row(batch, policy, answer)))
        else:
            units = comparison.cluster(batch).resized(answer.nodes or 1).capacity()
            click.echo(f"{policy}: {batch} trajectories {_sentence(what, answer, in_words(units))}")
    return all(answer.nodes is not None for answer in answers.values())


def run_replay(leads: list[Lead], *, as_json: bool) -> bool:
    """Replay a record and print how that went. Returns whether all decisions were the same.

    Args:
        leads: the record.
        as_json: print JSON.
    """
    found = replay(leads)
    if as_json:
        click.echo(json.dumps(asdict(found)))
    elif found.difference is None:
        click.echo(f"{found.events} events, {found.decisions} decisions: all the same")
    else:
        click.echo(f"after {found.events} events and {found.decisions} equal decisions: {found.difference}")
    return found.difference is None


def _smallest(comparison: Comparison, batch: int, policy: str, what: Literal["act", "step"], seconds: float) -> Answer:
    workloads = {seed: comparison.draw(batch, seed) for seed in comparison.seeds}

    def measure(nodes: int) -> float:
        cluster = comparison.cluster(batch).resized(nodes)
        outcomes = [simulate(policy, cluster, drawn, comparison.costs, seed) for seed, drawn in workloads.items()]
        if what == "step":
            return fmean(outcome.step for outcome in outcomes) / 1000
        return fmean(fmean(outcome.acts()) for outcome in outcomes) / 1000

    return smallest(measure, seconds)


def _sentence(what: str, answer: Answer, units: str) -> str:
    if answer.nodes is not None:
        return f"need {answer.nodes} nodes ({units} in all) for {what} {answer.value:.2f} s"
    best = f"the best {what} seen is {answer.value:.2f} s" if isfinite(answer.value) else "they fit no number of nodes"
    return f"do not get there with any number of nodes; {best}"


def _row(batch: int, policy: str, answer: Answer) -> dict[str, object]:
    tried = {nodes: value for nodes, value in sorted(answer.tried.items()) if isfinite(value)}
    best = answer.value if isfinite(answer.value) else None
    return {"batch": batch, "policy": policy, "nodes": answer.nodes, "seconds": best, "tried": tried}


def _tracked(rows: Iterable[T], total: int) -> Iterable[T]:
    console = Console(stderr=True)
    return track(rows, "simulating", total=total, console=console, transient=True, disable=not console.is_terminal)


def _show(report: SimulationReport, *, as_json: bool) -> None:
    if as_json:
        click.echo(report.model_dump_json(indent=1))
        return
    console = Console()
    for table in tables(report.workload, report.summary):
        console.print(table)
    console.print("means over the seeds; ± is the standard deviation of the mean ACT over them")


def _write(output: Path, report: SimulationReport, pictured: dict[int, dict[str, Outcome]]) -> None:
    output.mkdir(parents=True, exist_ok=True)
    (output / "report.json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    for batch, outcomes in pictured.items():
        for key in next(iter(outcomes.values())).gauges:
            picture = load_picture(f"{report.workload}, {batch} trajectories", key, outcomes)
            (output / f"load-{batch}-{key.replace(':', '-')}.svg").write_text(picture, encoding="utf-8")
