"""What rollout code imports. Importing this package loads no Celery; `TangramApp` does, on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tangram_tasks.context import ServiceHandle
from tangram_tasks.elasticity import Amdahl, Fixed, Table
from tangram_tasks.errors import (
    ActionCancelled,
    ActionOutOfMemory,
    ActionTimeout,
    BrokerUnavailable,
    ConfigurationError,
    Infeasible,
    InvalidAction,
    NoCapacity,
    NodeLost,
    NoProcessesLeft,
    QuotaExhausted,
    ResultTooLarge,
    SandboxError,
    ServiceUnavailable,
    SpawnFailed,
    TangramError,
)
from tangram_tasks.report import ActionReport
from tangram_tasks.sandbox import ExecResult, Sandbox, SandboxProcess

if TYPE_CHECKING:
    from tangram_tasks.app import TangramApp

__all__ = [
    "ActionCancelled",
    "ActionOutOfMemory",
    "ActionReport",
    "ActionTimeout",
    "Amdahl",
    "BrokerUnavailable",
    "ConfigurationError",
    "ExecResult",
    "Fixed",
    "Infeasible",
    "InvalidAction",
    "NoCapacity",
    "NoProcessesLeft",
    "NodeLost",
    "QuotaExhausted",
    "ResultTooLarge",
    "Sandbox",
    "SandboxError",
    "SandboxProcess",
    "ServiceHandle",
    "ServiceUnavailable",
    "SpawnFailed",
    "Table",
    "TangramApp",
    "TangramError",
]


def __getattr__(name: str) -> Any:
    if name == "TangramApp":
        from tangram_tasks.app import TangramApp

        return TangramApp
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
