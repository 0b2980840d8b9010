"""`tangram jobs`: RL jobs that share a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from monitoring.shares import JobStatus

_UNKNOWN = "no job is called {}: {}; a job is known from its first action on"


@click.group(
    epilog="""\b
Examples:
  tangram jobs ls
  tangram jobs set search-agent --weight 3
  tangram jobs pause search-agent"""
)
def jobs() -> None:
    """Look at RL jobs, change their shares, pause or cancel them."""


@jobs.command("ls")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def list_(output: str) -> None:
    """Show every job: its weight, its state, how many of its actions wait and run."""
    import json

    from compose.broker_client import deployment
    from monitoring.shares import read_jobs

    with deployment() as (client, keys):
        rows = read_jobs(client, keys)
    if output == "json":
        click.echo(json.dumps([row.model_dump(mode="json") for row in rows], indent=2))
    else:
        _print(rows)


@jobs.command("set")
@click.argument("job")
@click.option("--weight", type=click.IntRange(min=1), required=True, help="Its share against other jobs.")
def set_(job: str, weight: int) -> None:
    """Give JOB another weight; it counts more than what the job itself says."""
    _send(job, weight=weight)
    click.echo(f"{job}: weight {weight}")


@jobs.command()
@click.argument("job")
def pause(job: str) -> None:
    """Let what JOB has waiting wait on; what runs ends."""
    _send(job, state="paused")
    click.echo(f"{job}: paused")


@jobs.command()
@click.argument("job")
def resume(job: str) -> None:
    """Let JOB go on after a pause, or begin anew after it was cancelled."""
    _send(job, state="active")
    click.echo(f"{job}: active")


@jobs.command()
@click.argument("job")
def cancel(job: str) -> None:
    """End all actions and trajectories of JOB, and refuse new ones until it is resumed."""
    _send(job, state="cancelled")
    click.echo(f"{job}: cancelled")


def _send(
    job: str, *, weight: int | None = None, state: Literal["active", "paused", "cancelled"] | None = None
) -> None:
    from compose.broker_client import deployment, tell
    from monitoring.shares import read_jobs
    from tangram_tasks.errors import ConfigurationError
    from tangram_tasks.sharing import SetJob

    with deployment() as (client, keys):
        known = [row.name for row in read_jobs(client, keys)]
        if job not in known:
            raise ConfigurationError(_UNKNOWN.format(job, ", ".join(known) or "there are none"))
        tell(client, keys, SetJob(job=job, weight=weight, state=state))


def _print(rows: list[JobStatus]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("JOB", "WEIGHT", "STATE", "WAITING", "GRANTED", box=None, pad_edge=False)
    for row in rows:
        table.add_row(escape(row.name), str(row.record.weight), row.record.state, str(row.waiting), str(row.granted))
    Console().print(table if rows else "no jobs")
