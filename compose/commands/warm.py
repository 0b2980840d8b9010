"""`tangram warm`: how many sandboxes a node keeps ready."""

from __future__ import annotations

import click


@click.command()
@click.argument("node")
@click.argument("image")
@click.argument("count", type=click.IntRange(min=0))
@click.option("--memory", default="512MiB", show_default=True, help="of each; trajectories that ask for just as much.")
def warm(node: str, image: str, count: int, memory: str) -> None:
    """Let NODE keep COUNT sandboxes of IMAGE ready, from now until it is started again.

    It offers so much less memory to trajectories.
    """
    from compose.commands.orders import order_node
    from tangram_tasks.resources import memory_mib
    from tangram_tasks.wire import KeepWarm

    order_node(node, KeepWarm(image=image, memory=memory_mib(memory), count=count))
    click.echo(f"{node} is told to keep {count} sandboxes of {image} ready")
