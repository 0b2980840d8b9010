"""`tangram web`: a live page of this deployment."""

from __future__ import annotations

import click


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=5556, show_default=True, help="0 takes a free one.")
def web(port: int) -> None:
    """Show grants, resources and the queue on a live page.

    It is read-only and for this machine only; from elsewhere use `ssh -L 5556:127.0.0.1:5556 HOST`.
    """
    from compose.broker import check_broker
    from compose.state_dir import operator_url
    from monitoring.scene_feed import SceneFeed
    from monitoring.web_server import WebServer
    from tangram_tasks.app import TangramApp
    from tangram_tasks.errors import ConfigurationError
    from tangram_tasks.settings import settings

    url = operator_url(settings())
    check_broker(url)
    try:
        server = WebServer(port, SceneFeed(TangramApp("tangram", broker=url)))
    except OSError as error:
        raise ConfigurationError(f"port {port} on 127.0.0.1 is not to be had: {error.strerror}") from None
    with server:
        click.echo(f"{server.url}   Ctrl-C ends")
        server.serve_forever()
