"""`tangram queue`: what waits, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tangram_tasks.questions import ActionExplained


@click.group()
def queue() -> None:
    """Look into the queues."""


@queue.command()
@click.argument("action")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def explain(action: str, output: str) -> None:
    """Say where ACTION is, and why it waits if it does."""
    import redis

    from compose.broker import check_broker
    from tangram_tasks.keys import Keys
    from tangram_tasks.questions import explain as ask
    from tangram_tasks.settings import broker_url, settings

    config = settings()
    url = broker_url(config)
    check_broker(url)
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        answer = ask(client, Keys(config.prefix), action)
    click.echo(answer.model_dump_json(indent=2) if output == "json" else _in_words(answer))


def _in_words(answer: ActionExplained) -> str:
    rows = [("action", answer.action), ("state", answer.state), ("reason", answer.reason)]
    if answer.place is not None:
        rows.append(("place", answer.place))
    if answer.state == "waiting":
        rows += [
            ("position", str(answer.position)),
            ("needs", _amounts(answer.demand)),
            *((f"free on {place}", _amounts(amounts)) for place, amounts in answer.free.items()),
            ("passed over", f"{answer.passed_over} times"),
            ("expected", _expected(answer)),
        ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _expected(answer: ActionExplained) -> str:
    if answer.start_s is None or answer.act_s is None:
        return "cannot be said"
    return (
        f"starts in {answer.start_s:.1f} s, done {answer.act_s:.1f} s after its publish"
        f" ({answer.confidence:.0%} learned, the rest declared)"
    )


def _amounts(amounts: dict[str, int]) -> str:
    return " ".join(f"{name}={amount}" for name, amount in sorted(amounts.items())) or "nothing"
