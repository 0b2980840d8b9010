"""`tangram services`: look at the services of GPU nodes, and move them by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from tangram_tasks.orders import ServiceAnswer, ServiceVerb

_NODE = click.option("--node", default="", help="Only this GPU node (default: all that hold the service).")
_TIMEOUT = click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True)


@click.group(
    epilog="""\b
Examples:
  tangram services ls
  tangram services load judge --node gpu-1
  tangram services pin judge && tangram services canary judge"""
)
def services() -> None:
    """Look at the services of GPU nodes, and page them in and out by hand."""


@services.command()
@_NODE
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def ls(node: str, output: str) -> None:
    """Show every service on every device: where its weights are, and what was done with them."""
    answers = _ask("ls", "", node, 10.0)
    if output == "json":
        _print_json(answers)
    else:
        _print_table(answers)
    _fail_if_any_did(answers)


@services.command()
@click.argument("service")
@_NODE
@_TIMEOUT
def load(service: str, node: str, timeout: float) -> None:
    """Page SERVICE in now; one that has failed is tried again."""
    _order("load", service, node, timeout)


@services.command()
@click.argument("service")
@_NODE
@_TIMEOUT
def park(service: str, node: str, timeout: float) -> None:
    """Page SERVICE out now; refused while actions use it."""
    _order("park", service, node, timeout)


@services.command()
@click.argument("service")
@_NODE
@_TIMEOUT
def pin(service: str, node: str, timeout: float) -> None:
    """Page SERVICE in, and never out to make room for others."""
    _order("pin", service, node, timeout)


@services.command()
@click.argument("service")
@_NODE
def unpin(service: str, node: str) -> None:
    """Let SERVICE make room for others again."""
    _order("unpin", service, node, 10.0)


@services.command()
@click.argument("service")
@_NODE
@_TIMEOUT
def canary(service: str, node: str, timeout: float) -> None:
    """Ask SERVICE the question whose answer its declaration knows. It waits for a free device."""
    _order("canary", service, node, timeout)


def _order(verb: ServiceVerb, service: str, node: str, timeout: float) -> None:
    answers = _ask(verb, service, node, timeout)
    for answer in answers:
        if answer.ok:
            click.echo(f"{answer.node}: {answer.message}")
    _fail_if_any_did(answers)


def _ask(verb: ServiceVerb, service: str, node: str, timeout: float) -> list[ServiceAnswer]:
    import redis

    from compose.broker import check_broker
    from compose.service_control import ask, nodes_with
    from compose.state_dir import operator_url
    from monitoring.status import read_status
    from tangram_tasks.keys import Keys
    from tangram_tasks.settings import settings

    config = settings()
    url, keys = operator_url(config), Keys(config.prefix)
    check_broker(url)
    with redis.Redis.from_url(url, socket_timeout=timeout + 15) as client:
        snapshot = read_status(client, keys, node_timeout=config.node_timeout)
        nodes = nodes_with(snapshot.nodes, service=service, node=node)
        found = ask(client, keys, nodes, verb=verb, service=service, timeout=timeout)
        return sorted(found, key=lambda answer: answer.node)


def _fail_if_any_did(answers: Sequence[ServiceAnswer]) -> None:
    failures = [f"{answer.node}: {answer.message}" for answer in answers if not answer.ok]
    if failures:
        raise click.ClickException("; ".join(failures))


def _print_json(answers: Sequence[ServiceAnswer]) -> None:
    import json

    click.echo(json.dumps([answer.model_dump(mode="json") for answer in answers], indent=2))


def _print_table(answers: Sequence[ServiceAnswer]) -> None:
    from rich.console import Console

    Console().print(_table(answers))


def _table(answers: Sequence[ServiceAnswer]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    names = ("SERVICE", "NODE", "DEVICE", "STATE", "MIB", "PAGE-INS", "HITS", "IN USE", "PINNED", "WHY")
    table = Table(*names, box=None, pad_edge=False)
    for answer in answers:
        for state in answer.states:
            table.add_row(
                escape(state.service),
                escape(answer.node),
                escape(state.device),
                state.state,
                f"{state.nbytes / 2**20:.1f}",
                str(state.page_ins),
                str(state.hits),
                str(state.in_use),
                "yes" if state.kept else "",
                escape(state.reason),
            )
    return table
