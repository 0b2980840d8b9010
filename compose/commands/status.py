"""`tangram status`: what runs, what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from monitoring.status import NodeStatus, Status


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(output: str) -> None:
    """Show what runs and what waits.

    That is the leader, the nodes with the age of their heartbeat, and the numbers of actions.
    Exit code 1 says that nothing runs.
    """
    import redis

    from compose.broker import check_broker
    from compose.state_dir import operator_url
    from monitoring.status import read_status
    from tangram_tasks.keys import Keys
    from tangram_tasks.settings import settings

    config = settings()
    url = operator_url(config)
    check_broker(url)
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        snapshot = read_status(client, Keys(config.prefix), node_timeout=config.node_timeout)
    if output == "json":
        click.echo(snapshot.model_dump_json(indent=2))
    else:
        _print(url, snapshot)
    if not snapshot.alive:
        raise click.exceptions.Exit(1)


def _print(url: str, snapshot: Status) -> None:
    from rich.console import Console

    from tangram_tasks.settings import without_password

    console = Console()
    console.print(f"tangram on {without_password(url)}", highlight=False, soft_wrap=True)
    console.print(f"scheduler  {snapshot.leader or '[bold]none leads[/bold]'}", highlight=False, soft_wrap=True)
    console.print(
        f"actions    {snapshot.incoming} incoming, {snapshot.waiting} waiting, {snapshot.granted} granted, "
        f"{snapshot.running} running, {snapshot.refused} refused; {snapshot.trajectories} trajectories",
        highlight=False,
        soft_wrap=True,
    )
    console.print(_node_table(snapshot) if snapshot.nodes else "no nodes")


def _state(node: NodeStatus) -> str:
    if not node.alive:
        return "[bold red]LOST[/bold red]"
    if node.quarantined_s:
        return f"[bold red]QUARANTINE[/bold red] {node.quarantined_s:.0f} s"
    return "drains" if node.record.draining else "ready"


def _node_table(snapshot: Status) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table("NODE", "KIND", "STATE", "CAPACITY", "SERVICES", "HOST", "HEARTBEAT", box=None, pad_edge=False)
    for node in snapshot.nodes:
        record = node.record
        capacity = " ".join(f"{name}={amount}" for name, amount in sorted(record.capacity.items()))
        table.add_row(
            escape(record.node),
            record.kind,
            _state(node),
            escape(capacity or "-"),
            escape(" ".join([*record.services, *record.quotas]) or "-"),
            escape(f"{record.host}:{record.pid}"),
            f"{node.age:.1f} s",
        )
    return table
