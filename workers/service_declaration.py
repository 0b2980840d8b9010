"""How a service is declared, in Python or in a YAML file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tangram_tasks.errors import ConfigurationError
from tangram_tasks.resources import parse_memory
from workers.canary import Canary
from workers.engines.shape import Shape
from workers.imported import PATTERN, is_name

#: Memory sizes such as "16GiB", in bytes.
Bytes = Annotated[int, BeforeValidator(parse_memory)]
#: Packaged services, and the modules that load them.
PACKAGED = {"minilm": "workers.minilm", "smollm2": "workers.smollm2"}
_Seconds = Annotated[float, Field(gt=0)]


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Service(_Declared):
    """What all services have: a name by which actions ask for it, and maybe a canary."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    canary: Canary | None = None

    def relative_to(self, folder: Path) -> Self:
        """Return the declaration with its relative paths below `folder`."""
        return self


class _Anywhere(_Service):
    """What a service has that can be on any device: how many an action may have; by default any number."""

    sizes: tuple[Annotated[int, Field(ge=1)], ...] = ()


class TorchDeclaration(_Anywhere):
    """A model that computes in the node's process.

    Args:
        source: a packaged service ("minilm", "smollm2"); "module:function" that takes a LoadContext and returns a
            Model; a Hugging Face folder; or a *.safetensors file.
        factory: "module:function" that builds the module for a *.safetensors file.
        task: of a folder: "sequence_classification" or "causal_lm"; None reads it from its config.
        dtype: of a folder's weights.
        max_tokens: of a folder.
        batch: of a folder: items per run at most.
        label: of a folder with a classifier of several labels: the one whose probability is the score.
        mutable: of a folder: buffers that calls change and whose changes must last; changes of others fail the call.
    """

    kind: Literal["torch"] = "torch"
    source: str = Field(min_length=1)
    factory: str | None = Field(default=None, pattern=rf"^{PATTERN}$")
    task: Literal["sequence_classification", "causal_lm"] | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_tokens: int = Field(default=2048, ge=2)
    batch: int = Field(default=8, ge=1)
    label: int | None = Field(default=None, ge=0)
    mutable: frozenset[str] = frozenset()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.is_tensors_file != (self.factory is not None):
            raise ValueError("a *.safetensors source needs a factory, and only such a source has one")
        if not self.is_folder:
            named = sorted(self.model_fields_set & {"task", "dtype", "max_tokens", "batch", "label", "mutable"})
            if named:
                raise ValueError(f"only a folder takes {', '.join(named)}: {self.source!r} is none")
        return self

    @property
    def is_function(self) -> bool:
        """Whether the source is a function."""
        return is_name(self.source)

    @property
    def is_tensors_file(self) -> bool:
        """Whether the source is a file of weights."""
        return self.source.endswith(".safetensors")

    @property
    def is_folder(self) -> bool:
        """Whether the source is a folder. Write one with a slash: other words are packaged services."""
        return "/" in self.source and not self.is_tensors_file

    def relative_to(self, folder: Path) -> Self:
        """Return the declaration with its source below `folder`, if that is a relative path."""
        if not (self.is_folder or self.is_tensors_file):
            return self
        return self.model_copy(update={"source": str(folder / self.source)})


class ServerDeclaration(_Declared):
    """One running engine.

    Args:
        url: its address, without a password: see `key_env`.
        devices: the devices that it computes on, by index on the node.
    """

    url: str = Field(pattern=r"^https?://[^\s@]+$")
    devices: tuple[int, ...] = Field(default=(0,), min_length=1)

    @model_validator(mode="after")
    def _devices_differ(self) -> Self:
        if len(set(self.devices)) < len(self.devices) or min(self.devices) < 0:
            raise ValueError(f"devices must be different indexes from 0, not {list(self.devices)}")
        return self


class _EngineDeclaration(_Service):
    """A model in servers of its own, which somebody else starts.

    Args:
        servers: equal ones; each has its own devices.
        memory: what sleeping gives up on each device.
        residual: what a sleeping server keeps on each device.
        model: its name in requests.
        key_env: environment variable with the bearer token.
        key_file: file with it.
        methods: further ones, or others under the names of the presets.
        sleep_s: seconds for going to sleep, running requests included.
        wake_s: seconds for waking up.
        canary_s: seconds for the canary's answer after that.
        settle_s: seconds after which memory that was given up must be free.
    """

    servers: tuple[ServerDeclaration, ...] = Field(min_length=1)
    memory: Bytes
    residual: Bytes | None = None
    model: str | None = None
    key_env: str | None = None
    key_file: Path | None = None
    methods: dict[str, Shape] = {}
    sleep_s: _Seconds = 60.0
    wake_s: _Seconds = 120.0
    canary_s: _Seconds = 30.0
    settle_s: _Seconds = 5.0

    @model_validator(mode="after")
    def _devices_differ(self) -> Self:
        taken = [device for server in self.servers for device in server.devices]
        if len(set(taken)) < len(taken):
            raise ValueError("two servers of one service cannot share a device")
        return self

    def relative_to(self, folder: Path) -> Self:
        """Return the declaration with its key file below `folder`, if that is a relative path."""
        return self if self.key_file is None else self.model_copy(update={"key_file": folder / self.key_file})

    def key(self) -> str | None:
        """Return the bearer token, if there is to be one. Raises ConfigurationError, without it."""
        if self.key_env is not None:
            found = os.environ.get(self.key_env, "")
            where = f"set {self.key_env}"
        elif self.key_file is not None:
            try:
                found = self.key_file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"service {self.name}: its key cannot be read: {error}") from None
            where = f"write it to {self.key_file}"
        else:
            return None
        if not found:
            raise ConfigurationError(f"service {self.name}: its key is missing: {where}")
        return found


class VllmDeclaration(_EngineDeclaration):
    """vLLM servers with sleep mode; see `workers.engines.vllm`.

    Args:
        level: 1 keeps the weights in the server's main memory while it sleeps; 2 reads them from disk again.
    """

    kind: Literal["vllm"] = "vllm"
    level: Literal[1, 2] = 1


class SglangDeclaration(_EngineDeclaration):
    """SGLang servers with a memory saver; see `workers.engines.sglang`."""

    kind: Literal["sglang"] = "sglang"


class FakeDeclaration(_Anywhere):
    """A service without a model; see `workers.fake_service`.

    Args:
        memory: bytes that it takes on a device.
        page_in_s: seconds that a page-in takes.
        item_s: seconds that an item takes.
    """

    kind: Literal["fake"] = "fake"
    memory: Bytes = 1 << 20
    page_in_s: float = Field(default=0.0, ge=0)
    item_s: float = Field(default=0.0, ge=0)


EngineDeclaration = VllmDeclaration | SglangDeclaration
ServiceDeclaration = TorchDeclaration | VllmDeclaration | SglangDeclaration | FakeDeclaration
