"""`tangram apis`: what providers allow, how they stand, and other limits while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from monitoring.shares import ProviderStatus
    from tangram_tasks.sharing import QuotaRecord


@click.group(
    epilog="""\b
Examples:
  tangram apis ls
  tangram apis set search --per-minute 300 --concurrency 10
  tangram apis reset search"""
)
def apis() -> None:
    """Look at API providers, and change their limits at once."""


@apis.command("ls")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def list_(output: str) -> None:
    """Show every provider: its limits for each key, calls in flight, and whether it is closed."""
    import json

    from compose.broker_client import deployment
    from monitoring.shares import read_providers

    with deployment() as (client, keys):
        rows = read_providers(client, keys)
    if output == "json":
        click.echo(json.dumps([row.model_dump(mode="json") for row in rows], indent=2))
    else:
        _print(rows)


@apis.command("set")
@click.argument("name")
@click.option("--concurrency", type=click.IntRange(min=1), help="Calls in flight.")
@click.option("--per-second", type=click.FloatRange(min=0, min_open=True), help="Calls in any second.")
@click.option("--per-minute", type=click.IntRange(min=1), help="Calls in any minute.")
@click.option("--per-day", type=click.IntRange(min=1), help="Calls in any 24 hours.")
@click.option("--tokens-per-minute", type=click.IntRange(min=1), help="Tokens in any minute.")
def set_(name: str, **limits: Any) -> None:
    """Change limits of the provider NAME, for each key; those that are not named stay.

    They count until `tangram apis reset`, also after a restart of nodes and scheduler.
    """
    from tangram_tasks.errors import ConfigurationError
    from tangram_tasks.provider import Limits

    given = {limit: value for limit, value in limits.items() if value is not None}
    if not given:
        raise ConfigurationError("nothing to set: give a limit, for example --per-minute 300")
    _send(name, lambda now: Limits(**given).on_top_of(now))
    click.echo(f"{name}: {' '.join(f'{limit}={value:g}' for limit, value in given.items())}")


@apis.command()
@click.argument("name")
def reset(name: str) -> None:
    """Let the limits that NAME was declared with count again."""
    _send(name, lambda now: None)
    click.echo(f"{name}: as declared")


def _send(name: str, change: Any) -> None:
    from compose.broker_client import deployment, tell
    from monitoring.shares import read_providers
    from tangram_tasks.errors import ConfigurationError
    from tangram_tasks.sharing import SetQuota

    with deployment() as (client, keys):
        known = {row.name: row for row in read_providers(client, keys)}
        if name not in known:
            raise ConfigurationError(f"no provider is called {name}: {', '.join(known) or 'there are none'}")
        tell(client, keys, SetQuota(provider=name, quota=change(known[name].quota)))


def _print(rows: list[ProviderStatus]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("PROVIDER", "KEYS", "IN FLIGHT", "LIMITS PER KEY", "STATE", "NODES", box=None, pad_edge=False)
    for row in rows:
        state = f"[bold red]closed for {row.closed_s:.0f} s[/bold red]" if row.closed_s else "open"
        table.add_row(
            escape(row.name),
            str(row.quota.keys),
            f"{row.in_flight}/{row.concurrency}",
            escape(_limits(row.quota) + (" (set by hand)" if row.by_hand else "")),
            state,
            escape(" ".join(row.nodes)),
        )
    Console().print(table if rows else "no providers")


def _limits(quota: QuotaRecord) -> str:
    rows = ["concurrency learned" if quota.adaptive else f"{quota.concurrency} at once"]
    rows += [f"{window.limit} {window.counts}/{window.seconds:g} s" for window in quota.windows]
    if quota.per_second is not None:
        rows.append(f"spread over each second in bursts of {quota.burst}")
    return ", ".join(rows)
