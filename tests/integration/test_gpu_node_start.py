"""Which nodes start, which say why not, and how their devices are emulated."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported

from tangram_tasks.errors import ConfigurationError
from workers.device_ops import CpuOps
from workers.devices import Device, Inventory
from workers.gpu_node import GpuNode

pytestmark = NEEDS_TORCH

TOYS = "tests.support.toy_services"
SMALL, LARGE = f"small={TOYS}:small", f"large={TOYS}:large"


@pytest.mark.parametrize(
    ("services", "options", "named"),
    [
        ((), {}, "one service or more"),
        (("minilm3",), {}, "unknown service 'minilm3': use minilm, smollm2, or name=module:function"),
        (("mine=no.such:thing",), {}, "service mine: no.such:thing cannot be imported"),
        ((f"mine={TOYS}:nothing",), {}, "cannot be imported"),
        ((f"mine={TOYS}:__name__",), {}, "is not a function"),
        ((SMALL, SMALL), {}, "same name"),
        ((f"bad={TOYS}:training",), {}, "service bad: the module is in training mode"),
        ((f"bad={TOYS}:model",), {}, "service bad could not be loaded"),
        ((LARGE,), {"budget_mib": 1}, r"service large needs 1\.8 MiB, and device emulated-0 has a budget of 1\.0 MiB"),
        ((f"c={TOYS}:counting",), {"devices": 2}, "service c has mutable buffers: it can be on one device only"),
    ],
)
def test_a_node_that_cannot_work_does_not_start(
    tmp_path: Path, services: tuple[str, ...], options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigurationError, match=named):
        GpuNode(node="gpu-1", state_dir=tmp_path, services=services, **{"devices": 1, "budget_mib": 2, **options})


def test_gpus_that_torch_does_not_see_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unseen = Inventory((Device("GPU-0", "Model X", 80, 70),), "nvml")
    monkeypatch.setattr("workers.gpu_node.probe", lambda: unseen)

    with pytest.raises(ConfigurationError, match=r"this machine has GPUs \(Model X\), but torch .* sees none"):
        GpuNode(node="gpu-1", state_dir=tmp_path, services=(SMALL,))


def test_an_emulated_link_paces_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    ops = CpuOps(link_gbps=2.0)
    ops.copy(ops.arena(4_000_000), ops.host_buffer(4_000_000))

    assert slept == [pytest.approx(0.002)]
