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

    It offers so much less memory to trajectories. If it has not that much it refuses, and its log says so.
    """
    from compose.commands.orders import order_node
    from tangram_tasks.orders import KeepWarm
    from tangram_tasks.resources import memory_mib
    from workers.sandbox_policy import check_target

    mib = memory_mib(memory)
    check_target(image, mib, count)
    order_node(node, KeepWarm(image=image, memory=mib, count=count), kind="cpu")
    click.echo(f"{node} is told to keep {count} sandboxes of {image} ready")
