"""One frozen Settings object, read from `TANGRAM_*` environment variables."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from tangram_tasks.errors import BrokerUnavailable, ConfigurationError

CPU_POLICY = "^(paper|paper_wait|live|min|fixed:[1-9][0-9]*|utilisation|wait_or_start)$"
GPU_POLICY = "^(residency|paper|paper_wait|min|fixed:[1-9][0-9]*|utilisation|wait_or_start)$"


def _default_state_dir() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "tangram"


class Settings(BaseSettings):
    """What can be set from outside. Times are in seconds.

    Args:
        broker_url: redis:// or rediss:// or unix:// URL; empty means the embedded broker of `tangram up`.
        prefix: in front of every Redis key of this deployment.
        state_dir: where the embedded broker, sandboxes' sockets and logs live.
        cpu_unit: cores per CPU unit; below 1 the cgroup gets a quota and no own cores.
        policy: which policy admits and sizes actions on CPU nodes: "paper", "paper_wait", "live", "min", "fixed:N",
            "utilisation" or "wait_or_start".
        gpu_policy: the same on GPU nodes; also "residency", not "live".
        depth: waiting actions that the policy looks at behind the candidates.
        start_lease: a grant that has not started by then is taken back.
        heartbeat: how often a node reports.
        node_timeout: a node silent for this long is lost.
        leader_lease: a scheduler silent for this long loses the lead.
        max_waiting: so many actions may wait in all; further ones fail with NoCapacity.
        max_waiting_per_job: the same for each RL job.
        max_message: bytes of one published message, arguments included.
        max_result: bytes of one result.
        journal_expires: how long results of calls with an `action_key` stay, to be returned again.
        result_expires: how long results stay readable.
        imports: modules with actions that workers load, comma separated.
        record: file to which the leading scheduler writes every event and decision; none: it records nothing.
        metrics: HOST:PORT on which the scheduler serves metrics to Prometheus; none: it serves none.
        unsafe_local: allow commands to run on the host without any isolation.
    """

    model_config = SettingsConfigDict(env_prefix="TANGRAM_", frozen=True, extra="ignore")

    broker_url: str = ""
    prefix: str = "tangram:"
    state_dir: Path = Field(default_factory=_default_state_dir)
    cpu_unit: float = Field(default=1.0, gt=0, le=1)
    policy: str = Field(default="live", pattern=CPU_POLICY)
    gpu_policy: str = Field(default="residency", pattern=GPU_POLICY)
    depth: int = Field(default=16, ge=0)
    start_lease: float = Field(default=15.0, gt=0)
    heartbeat: float = Field(default=1.0, gt=0)
    node_timeout: float = Field(default=5.0, gt=0)
    leader_lease: float = Field(default=2.0, gt=0)
    max_waiting: int = Field(default=200_000, gt=0)
    max_waiting_per_job: int = Field(default=100_000, gt=0)
    max_message: int = Field(default=4 * 2**20, gt=0)
    max_result: int = Field(default=16 * 2**20, gt=0)
    result_expires: int = Field(default=3600, gt=0)
    journal_expires: int = Field(default=7 * 86400, gt=0)
    imports: str = ""
    record: Path | None = None
    metrics: str = Field(default="", pattern=r"^$|^[^\s/]+:[0-9]{1,5}$")
    unsafe_local: bool = False

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules in `imports`."""
        return tuple(name.strip() for name in self.imports.split(",") if name.strip())


@cache
def settings() -> Settings:
    """Return the settings of this process, read once. Raises ConfigurationError naming the variable."""
    try:
        return Settings()
    except ValidationError as error:
        rows = "; ".join(f"TANGRAM_{str(row['loc'][0]).upper()}: {row['msg']}" for row in error.errors())
        raise ConfigurationError(rows) from None


def without_password(url: str) -> str:
    """Return the URL with its password hidden, for messages."""
    parts = urlsplit(url)
    query = re.sub(r"(?i)(password=)[^&]*", r"\1***", parts.query)
    if parts.password is None:
        return urlunsplit(parts._replace(query=query))
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{host}", query=query))


def broker_file(config: Settings) -> Path:
    """Where `tangram up` writes the URL of its embedded broker, readable by its owner only."""
    return config.state_dir / "broker.url"


def broker_url(config: Settings) -> str:
    """Return the broker to use: the configured one, else that of a running `tangram up`.

    Raises:
        BrokerUnavailable: neither exists.
    """
    if config.broker_url:
        return config.broker_url
    try:
        return broker_file(config).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise BrokerUnavailable(
            f"no broker: start one with `tangram up` (state folder {config.state_dir}) or set TANGRAM_BROKER_URL"
        ) from None
