"""`tangram drain`: take a node out of service in good order."""

from __future__ import annotations

import click


@click.command()
@click.argument("node")
def drain(node: str) -> None:
    """Let NODE take nothing new, finish what is bound to it, and leave.

    Its process ends by itself when its last trajectory is over; a supervisor that starts it again brings it back.
    """
    from compose.commands.orders import order_node
    from tangram_tasks.orders import DrainNode

    order_node(node, DrainNode())
    click.echo(f"{node} drains; `tangram status` no longer shows it once it has left")
