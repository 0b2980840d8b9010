"""`tangram simulate`: policies on a workload in virtual time, and how many machines it needs."""

from __future__ import annotations

from pathlib import Path

import click

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def _names(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _numbers(context: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    parts = [part for part in text.split(",") if part]
    if not all(part.isdigit() and int(part) for part in parts):
        raise click.BadParameter(f"{text!r} is no list of numbers above 0, like 256,1280")
    return [int(part) for part in parts]


@click.command(
    epilog="""\b
Examples:
  tangram simulate --workload coding --batch 256,1280 --policies static,fixed:4,paper,live --seeds 5
  tangram simulate --workload swe --policies paper,live --malleable 50 --output results
  tangram simulate --workload coding --policies static,live --target-step 200s
  tangram simulate --trace actions.csv --nodes 2 --cores 64 --policies paper,live
  tangram simulate --replay events.jsonl --policies live"""
)
@click.option("--workload", default="coding", show_default=True, help="coding, coding-long, coding-tight, mopd, ...")
@click.option("--trace", type=_FILE, help="CSV file with one row per action, instead of a workload.")
@click.option(
    "--replay",
    type=_FILE,
    help="Record of `tangram scheduler --record`: does the core decide the same again? With --policies: how would they"
    " have done?",
)
@click.option("--batch", "batches", default="", callback=_numbers, help="Trajectories, comma separated.")
@click.option("--policies", default="", callback=_names, help="Comma separated (default: paper).")
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, show_default=True, help="Draws of each batch.")
@click.option("--malleable", type=click.IntRange(0, 100), default=100, show_default=True, help="% of elastic actions.")
@click.option("--cluster", "file", type=_FILE, help="Machines, in TOML or YAML.")
@click.option("--nodes", type=click.IntRange(1), help="CPU nodes.")
@click.option("--cores", type=click.IntRange(1), help="Cores of each.")
@click.option("--gpu-nodes", type=click.IntRange(1), help="GPU nodes.")
@click.option("--gpus", type=click.IntRange(1), help="Devices of each.")
@click.option("--overhead-ms", type=click.IntRange(0), default=5, show_default=True, help="Of one CPU action.")
@click.option("--target-act", metavar="TIME", help="Find the smallest cluster with such a mean ACT, like 2s.")
@click.option("--target-step", metavar="TIME", help="Find the smallest cluster with such a step, like 400s.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON only.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), help="Folder for report and pictures.")
def simulate(
    workload: str,
    trace: Path | None,
    replay: Path | None,
    batches: list[int],
    policies: list[str],
    seeds: int,
    malleable: int,
    file: Path | None,
    nodes: int | None,
    cores: int | None,
    gpu_nodes: int | None,
    gpus: int | None,
    overhead_ms: int,
    target_act: str | None,
    target_step: str | None,
    as_json: bool,
    output: Path | None,
) -> None:
    """Run policies on a workload in virtual time.

    Exit code 1 says that a replay differed, or that a target is out of reach.
    """
    from compose.simulate.machines import Costs
    from compose.simulate.main import run_comparison, run_replay, run_target
    from compose.simulate.options import Machinery, comparison, parse_seconds, source_of
    from scheduler.record import read_record

    if target_act and target_step:
        raise click.UsageError("give --target-act or --target-step, not both")
    if (trace or replay) and (batches or (trace and replay)):
        raise click.UsageError("a trace or a record is one batch: leave out the others, and --batch")
    leads = [] if replay is None else read_record(replay)
    if leads and not policies:
        raise click.exceptions.Exit(not run_replay(leads, as_json=as_json))
    source = source_of(workload, trace, leads)
    asked = comparison(
        source,
        batches=batches,
        policies=policies or ["paper"],
        seeds=1 if trace or leads else seeds,
        malleable=malleable / 100,
        machinery=Machinery(file, nodes, cores, gpu_nodes, gpus),
        costs=Costs(cpu=overhead_ms),
    )
    if target := target_act or target_step:
        reached = run_target(asked, "act" if target_act else "step", parse_seconds(target), as_json=as_json)
        raise click.exceptions.Exit(not reached)
    run_comparison(source, asked, malleable=malleable / 100, as_json=as_json, output=output)
