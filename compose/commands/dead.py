"""`tangram dead`: messages that could not be admitted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from monitoring.dead_letters import DeadLetters

_WIDTH = 100  # characters of a reason in a row


@click.group()
def dead() -> None:
    """Look at messages that the scheduler refused, send them in again, or drop them."""


@dead.command("ls")
def list_letters() -> None:
    """List them, the newest first."""
    from datetime import UTC, datetime

    with _letters() as letters:
        for letter in letters.all():
            at = datetime.fromtimestamp(letter.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
            click.echo(f"{letter.id}  {at}  {letter.action}  {letter.reason[:_WIDTH]}")


@dead.command()
@click.argument("name")
def show(name: str) -> None:
    """Print one with its reason."""
    with _letters() as letters:
        letter = letters.find(name)
    click.echo(f"{letter.reason}\n{letter.raw}")


@dead.command()
@click.argument("names", nargs=-1, required=True)
def requeue(names: tuple[str, ...]) -> None:
    """Send some in again, once what they were refused for is mended."""
    with _letters() as letters:
        for name in names:
            click.echo(f"sent in action {letters.requeue(name).action}")


@dead.command()
@click.argument("names", nargs=-1, required=True)
def drop(names: tuple[str, ...]) -> None:
    """Forget some."""
    with _letters() as letters:
        for name in names:
            click.echo(f"dropped action {letters.drop(name).action}")


@contextlib.contextmanager
def _letters() -> Iterator[DeadLetters]:
    import redis

    from compose.broker import check_broker
    from compose.state_dir import operator_url
    from monitoring.dead_letters import DeadLetters
    from tangram_tasks.keys import Keys
    from tangram_tasks.settings import settings

    config = settings()
    url = operator_url(config)
    check_broker(url)
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        yield DeadLetters(client, Keys(config.prefix))
