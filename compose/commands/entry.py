"""`tangram scheduler` and `tangram worker`: single processes of a deployment that spans machines."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from compose.stack_config import NodeConfig
    from tangram_tasks.wire import NodeKind

_HOST = platform.node().split(".")[0] or "node"


@click.command()
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write every event and decision to this file, for `tangram simulate --replay`.",
)
def scheduler(record: Path | None) -> None:
    """Run a scheduler. Several may run: one leads, the others stand by."""
    import sys

    environment = {} if record is None else {"TANGRAM_RECORD": str(record.absolute())}
    _become((sys.executable, "-m", "compose.scheduler_process"), **environment)


@click.group(
    epilog="""\b
Examples:
  tangram worker cpu --cores 30 --import my_project.tools
  tangram worker gpu --service minilm --budget-mib 2000
  tangram worker api --providers providers.yaml"""
)
def worker() -> None:
    """Run one node of a pool. It needs nothing but the broker's URL."""


def _common(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--import", "modules", multiple=True, metavar="MODULE", help="Module with actions; repeatable."),
        click.option("--owner", default="", help="Label of what it creates (default: this machine's deployment)."),
        click.option("--concurrency", type=int, help="Threads that run actions (default: from the capacity)."),
    ):
        command = option(command)
    return command


@worker.command()
@click.option("--name", default=f"cpu-{_HOST}", show_default=True, help="Unique in the deployment.")
@click.option("--cores", type=float, help="Cores it may give away (default: all).")
@click.option("--memory-mib", type=int, help="MiB for sandboxes (default: 80 % of the machine).")
@click.option("--backend", type=click.Choice(["auto", "docker", "bubblewrap", "local"]), default="auto")
@_common
def cpu(owner: str, modules: tuple[str, ...], **options: Any) -> None:
    """Run a CPU node: sandboxes whose cores follow the action."""
    from compose.stack_config import CpuNodeConfig

    _run_node("cpu", CpuNodeConfig, owner, modules, options)


@worker.command()
@click.option("--name", default=f"gpu-{_HOST}", show_default=True, help="Unique in the deployment.")
@click.option("--devices", type=int, help="Devices (default: what is there, or one emulated).")
@click.option("--budget-mib", type=int, help="MiB of each device for services (default: what it has).")
@click.option("--link-gbps", type=float, help="Emulated page-in rate in GB/s.")
@click.option("--service", "services", multiple=True, help="Reward model it holds; repeatable (default: all).")
@_common
def gpu(owner: str, modules: tuple[str, ...], **options: Any) -> None:
    """Run a GPU node: reward models that are paged in per action."""
    from compose.stack_config import GpuNodeConfig

    _run_node("gpu", GpuNodeConfig, owner, modules, options)


@worker.command()
@click.option("--name", default=f"api-{_HOST}", show_default=True, help="Unique in the deployment.")
@click.option(
    "--providers",
    "file",
    type=click.Path(path_type=Path),
    required=True,
    help="YAML or TOML file: one table per provider; see docs/operations.md.",
)
@_common
def api(owner: str, modules: tuple[str, ...], file: Path, **options: Any) -> None:
    """Run an API node: HTTP calls under one quota for all rollout processes."""
    from compose.providers_file import read_providers
    from compose.stack_config import ApiNodeConfig

    _run_node("api", ApiNodeConfig, owner, modules, {**options, "providers": read_providers(file)})


def _run_node(
    kind: NodeKind, model: type[NodeConfig], owner: str, modules: tuple[str, ...], options: dict[str, Any]
) -> None:
    from compose.embedded import node_command, node_options
    from compose.stack_config import validated
    from compose.state_dir import StateDir
    from tangram_tasks.settings import settings

    node = validated(model, {name: value for name, value in options.items() if value not in (None, ())})
    owner = owner or StateDir(settings().state_dir).owner()
    environment = {"TANGRAM_NODE": node_options(node, owner)}
    if modules:
        environment["TANGRAM_IMPORTS"] = ",".join(modules)
    _become(node_command(kind), **environment)


def _become(command: tuple[str, ...], **environment: str) -> None:
    """Replace this process by the command, once the broker answers."""
    import os

    from compose.broker import check_broker
    from tangram_tasks.settings import broker_url, settings

    url = broker_url(settings())
    check_broker(url)
    os.execve(command[0], command, {**os.environ, "TANGRAM_BROKER_URL": url, **environment})
