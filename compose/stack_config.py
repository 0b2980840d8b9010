"""What a stack consists of, in pydantic models that also read a TOML file."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tangram_tasks.errors import ConfigurationError
from tangram_tasks.provider import Provider
from tangram_tasks.wire import NodeKind

#: Names become queue names, file names and label values.
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


C = TypeVar("C", bound=BaseModel)


class NodeConfig(_Config):
    """What all nodes have in common.

    Args:
        name: unique in the deployment.
        concurrency: threads that run actions; None derives it from the capacity.
    """

    name: str = Field(pattern=_NAME)
    concurrency: int | None = Field(default=None, gt=0)


class CpuNodeConfig(NodeConfig):
    """A node that runs sandboxes.

    Args:
        cores: cores it may give away; None takes all of the machine.
        memory_mib: MiB that its sandboxes may reserve; None takes 80 % of the machine.
        backend: what isolates a sandbox; "auto" takes the best that works.
        warm: image to how many sandboxes of it are kept ready, or to that by memory in MiB.
        warm_memory_mib: memory of each of them, where `warm` says none.
        mount_roots: trajectories may mount what is below these folders, read-only.
        images: pulled at the start, if they are missing; the node joins when they are there.
        pause_after: s without an action after which a sandbox gives its page cache back; None: never.
    """

    cores: float | None = Field(default=None, gt=0)
    memory_mib: int | None = Field(default=None, gt=0)
    backend: Literal["auto", "docker", "bubblewrap", "local"] = "auto"
    warm: dict[str, int | dict[int, int]] = {}
    warm_memory_mib: int = Field(default=512, gt=0)
    mount_roots: tuple[Path, ...] = ()
    images: tuple[str, ...] = ()
    pause_after: float | None = Field(default=None, gt=0)


class GpuNodeConfig(NodeConfig):
    """A node that pages reward models onto devices.

    Args:
        devices: how many; None takes what is there, or emulates one on the CPU.
        budget_mib: MiB of each device that services may use; None takes what the device has.
        link_gbps: emulated rate of page-in in GB/s; None does not slow it down.
        services: reward models it holds.
        threads: CPU threads of one call; None spreads the cores over emulated devices.
        page_out: which of them make room for others.
        cells: groups of devices, by index, with a fast link inside each; None takes what the driver says.
        overlap: let calls start while the later layers of a service are on their way.
        host_budget_mib: memory for host images, the least used of which stay on disk; None takes 60 % of the machine's.
    """

    devices: int | None = Field(default=None, gt=0)
    budget_mib: int | None = Field(default=None, gt=0)
    link_gbps: float | None = Field(default=None, gt=0)
    services: tuple[str, ...] = Field(default=("minilm", "smollm2"), min_length=1)
    threads: int | None = Field(default=None, gt=0)
    page_out: Literal["queue_aware", "lru"] = "queue_aware"
    cells: tuple[tuple[int, ...], ...] | None = None
    overlap: bool = False
    host_budget_mib: int | None = Field(default=None, ge=0)


#: What an API node is told of a provider.
ProviderConfig = Provider


class ApiNodeConfig(NodeConfig):
    """A node that calls HTTP APIs."""

    providers: dict[str, ProviderConfig] = Field(min_length=1)


class StackConfig(_Config):
    """A whole deployment on this machine.

    Args:
        broker_url: a running broker; None starts the embedded one.
        port: of the embedded broker; None takes a free one.
        persistent: the embedded broker keeps its data between runs.
        secure: the embedded broker has a user for each role, with just its rights.
        state_dir: logs, data and lock; None takes a temporary folder that goes away with the stack.
        prefix: in front of every Redis key.
        cpu_unit: cores per CPU unit.
        cpu: CPU nodes.
        gpu: GPU nodes.
        api: API nodes.
        imports: modules with actions that workers load.
        unsafe_local: allow sandboxes without any isolation.
        settings: further `TANGRAM_*` settings by their lower-case names, for example `{"heartbeat": "0.5"}`.
    """

    broker_url: str | None = None
    port: int | None = Field(default=None, gt=0, lt=65536)
    persistent: bool = True
    secure: bool = False
    state_dir: Path | None = None
    prefix: str = "tangram:"
    cpu_unit: float = Field(default=1.0, gt=0, le=1)
    cpu: tuple[CpuNodeConfig, ...] = ()
    gpu: tuple[GpuNodeConfig, ...] = ()
    api: tuple[ApiNodeConfig, ...] = ()
    imports: tuple[str, ...] = ()
    unsafe_local: bool = False
    settings: dict[str, str] = {}

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        twice = [name for name, count in Counter(node.name for _, node in self.nodes()).items() if count > 1]
        if twice:
            raise ValueError(f"node names must be unique: {', '.join(twice)}")
        return self

    def nodes(self) -> list[tuple[NodeKind, NodeConfig]]:
        """Return every node with its kind."""
        groups: list[tuple[NodeKind, tuple[NodeConfig, ...]]] = [
            ("cpu", self.cpu),
            ("gpu", self.gpu),
            ("api", self.api),
        ]
        return [(kind, node) for kind, nodes in groups for node in nodes]

    def environment(self, broker_url: str, state_dir: Path) -> dict[str, str]:
        """Return the settings of every child process as environment variables."""
        return {
            **{f"TANGRAM_{name.upper()}": value for name, value in self.settings.items()},
            "TANGRAM_BROKER_URL": broker_url,
            "TANGRAM_STATE_DIR": str(state_dir),
            "TANGRAM_PREFIX": self.prefix,
            "TANGRAM_CPU_UNIT": str(self.cpu_unit),
            "TANGRAM_IMPORTS": ",".join(self.imports),
            "TANGRAM_UNSAFE_LOCAL": str(self.unsafe_local).lower(),
            "PYTHONUNBUFFERED": "1",
        }


def read_stack_config(file: Path, defaults: Mapping[str, Any], overrides: Mapping[str, Any]) -> StackConfig:
    """Read a stack from a TOML file.

    Args:
        file: its tables are the fields of StackConfig, for example `[[cpu]]` with `name = "cpu-1"`.
        defaults: fields that the file wins over.
        overrides: fields that win over the file.

    Raises:
        ConfigurationError: the file cannot be read, or a field is wrong; the message names it.
    """
    return validated(StackConfig, {**defaults, **read_toml(file), **overrides})


def read_toml(file: Path) -> dict[str, Any]:
    """Return the content of a TOML file. Raises ConfigurationError if it cannot be read."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None


def validated(model: type[C], fields: Mapping[str, Any]) -> C:
    """Build a model from outside input. Raises ConfigurationError naming each wrong field."""
    try:
        return model(**fields)
    except ValidationError as error:
        rows = (f"{'.'.join(map(str, row['loc'])) or 'stack'}: {row['msg']}" for row in error.errors())
        raise ConfigurationError("; ".join(rows)) from None
