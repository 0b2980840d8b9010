"""`tangram drain`: take a node out of service in good order."""

from __future__ import annotations

import click


@click.command()
@click.argument("node")
def drain(node: str) -> None:
    """Let NODE take nothing new, finish what is bound to it, and leave.

    Its process ends by itself when its last trajectory is over; a supervisor that starts it again brings it back.
    """
    import redis

    from compose.broker import check_broker
    from tangram_tasks.errors import ConfigurationError
    from tangram_tasks.keys import Keys
    from tangram_tasks.settings import broker_url, settings
    from tangram_tasks.wire import DrainNode

    config = settings()
    url, keys = broker_url(config), Keys(config.prefix)
    check_broker(url)
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        if not client.hexists(keys.nodes, node):
            known = ", ".join(sorted(name.decode() for name in client.hkeys(keys.nodes))) or "there are none"
            raise ConfigurationError(f"no node is called {node}: {known}")
        client.rpush(keys.orders(node), DrainNode().model_dump_json())
    click.echo(f"{node} drains; `tangram status` no longer shows it once it has left")
