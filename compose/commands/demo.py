"""`tangram demo`: the main job for real, next to the same batch run statically."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--lite", is_flag=True, help="Without torch and reward models; the report says what is missing.")
@click.option("--trajectories", type=click.IntRange(1, 256), default=8, show_default=True, help="Size of the batch.")
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same workload.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the report.",
)
def demo(lite: bool, trajectories: int, seed: int, output: Path) -> None:
    """Run the main job for real and report.

    A batch of agent trajectories runs on this machine twice: scheduled per action, and with static reservations.
    Exit code 1 says that a result was wrong; the report lists what.
    """
    from compose.demo.main import run_demo

    code = run_demo(lite=lite, trajectories=trajectories, seed=seed, output=output)
    raise click.exceptions.Exit(code)
