"""`tangram demo`: the main job for real, next to the same batch run statically."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--workload",
    type=click.Choice(["coding", "mopd"]),
    default="coding",
    show_default=True,
    help="What is run: repairing a project in sandboxes, or asking nine teachers on two devices.",
)
@click.option("--lite", is_flag=True, help="Without torch and reward models; the report says what is missing.")
@click.option("--trajectories", type=click.IntRange(1, 256), help="Size of the batch; by default 8, mopd 120.")
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same workload.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the report.",
)
def demo(workload: str, lite: bool, trajectories: int | None, seed: int, output: Path) -> None:
    """Run the main job for real and report.

    A batch of agent trajectories runs on this machine twice: scheduled per action, and with static reservations.
    Exit code 1 says that a result was wrong; the report lists what.
    """
    if workload == "mopd":
        if lite:
            raise click.UsageError("--lite leaves reward models out, and the workload mopd is nothing but them")
        from compose.demo.mopd import Scale, run_mopd

        scale = Scale() if trajectories is None else Scale(trajectories)
        raise click.exceptions.Exit(run_mopd(scale=scale, seed=seed, output=output))
    from compose.demo.main import run_demo

    code = run_demo(lite=lite, trajectories=trajectories or 8, seed=seed, output=output)
    raise click.exceptions.Exit(code)
