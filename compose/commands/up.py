"""`tangram up`: run a whole deployment in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from compose.embedded import Stack
    from compose.stack_config import StackConfig

_LOOK = 0.5  # seconds between looks at the children


@click.command(
    epilog="""\b
Examples:
  tangram up
  tangram up --cores 4 --import my_project.tools
  tangram up --config stack.toml"""
)
@click.option("--config", "file", type=click.Path(path_type=Path), help="TOML file with nodes and settings.")
@click.option("--port", type=int, help="Port of the embedded broker on 127.0.0.1 (default: a free one).")
@click.option("--cores", type=float, help="Cores of the default CPU node (default: all).")
@click.option("--import", "modules", multiple=True, metavar="MODULE", help="Module with actions; repeatable.")
@click.option("--secure", is_flag=True, help="A broker user for each role, with just its rights.")
def up(file: Path | None, port: int | None, cores: float | None, modules: tuple[str, ...], *, secure: bool) -> None:
    """Run broker, scheduler and nodes until Ctrl-C.

    Without a configuration file there is one CPU node. TANGRAM_BROKER_URL replaces the embedded broker,
    TANGRAM_STATE_DIR the folder for logs and data.
    """
    from compose.embedded import Stack

    with Stack(_config(file, port=port, cores=cores, modules=modules, secure=secure)) as stack:
        _print_stack(stack)
        _follow(stack)


def _config(
    file: Path | None, *, port: int | None, cores: float | None, modules: tuple[str, ...], secure: bool
) -> StackConfig:
    from compose.stack_config import StackConfig, read_stack_config, validated
    from tangram_tasks.settings import settings

    base = settings()
    asked: dict[str, Any] = {"port": port, "imports": modules, "broker_url": base.broker_url, "secure": secure}
    overrides = {name: value for name, value in asked.items() if value}
    defaults: dict[str, Any] = {
        "state_dir": base.state_dir,
        "prefix": base.prefix,
        "cpu_unit": base.cpu_unit,
        "unsafe_local": base.unsafe_local,
        "imports": base.modules,
    }
    if file is not None:
        if cores is not None:
            raise click.UsageError("--cores belongs to the default node: set the cores in the configuration file")
        return read_stack_config(file, defaults, overrides)
    return validated(StackConfig, {**defaults, "cpu": ({"name": "cpu-1", "cores": cores},), **overrides})


def _print_stack(stack: Stack) -> None:
    from compose.state_dir import StateDir
    from tangram_tasks.settings import without_password

    click.echo(f"broker     {without_password(stack.broker_url)}")
    for name, child in stack.children.items():
        click.echo(f"{name:<10} pid {child.pid}, log {stack.log(name)}")
    if stack.config.broker_url is None:
        click.echo(f"The URL with its password is in {StateDir(stack.state_dir).broker_url}.")
    click.echo("Running; Ctrl-C stops everything.")


def _follow(stack: Stack) -> None:
    """Report restarts until somebody stops us."""
    import time

    from compose.supervisor import describe_exit

    seen = {name: child.restarts for name, child in stack.children.items()}
    while True:
        time.sleep(_LOOK)
        for name, child in stack.children.items():
            if child.restarts > seen[name]:
                seen[name] = child.restarts
                ended = describe_exit(child.exit_code)
                click.echo(f"{name} ended ({ended}) and was started again, {child.restarts} times so far", err=True)
