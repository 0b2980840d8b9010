"""Paging on a real GPU: the same guarantees as on emulated devices."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported
import torch

from workers.device_books import MIB
from workers.devices import probe
from workers.gpu_node import GpuNode

pytestmark = [
    NEEDS_TORCH,
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]

TOYS = "tests.support.toy_services"
NUMBERS = {"numbers": [0.5, -1.0, 2.0, 7.0, 3.25, 60.0]}


def _ask(node: GpuNode, service: str) -> list[float]:
    with node.lease(service=service, action="a1", units=1, deadline=time.monotonic() + 30) as lease:
        answers: list[float] = lease.call("score", NUMBERS)
        return answers


def test_answers_are_bit_equal_however_often_services_are_paged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.gpu_slots._budget", lambda device, whole: 2 * MIB)
    services = tuple(f"{name}={TOYS}:{name}" for name in ("small", "large", "tied"))
    node = GpuNode(node="gpu-1", state_dir=tmp_path, services=services)
    try:
        first = {name: _ask(node, name) for name in node.services}
        for _ in range(10):
            assert {name: _ask(node, name) for name in node.services} == first
        assert node.stats()["page_outs"] >= 10
    finally:
        node.stop()


def test_a_stopped_node_leaves_no_memory_on_the_device(tmp_path: Path) -> None:
    before = torch.cuda.memory_allocated()
    node = GpuNode(node="gpu-1", state_dir=tmp_path, services=(f"large={TOYS}:large",))
    _ask(node, "large")
    node.stop()
    del node
    gc.collect()

    assert torch.cuda.memory_allocated() <= before + MIB


def test_every_cuda_device_that_torch_sees_is_in_the_inventory() -> None:
    known = {device.id for device in probe().devices}
    for index in range(torch.cuda.device_count()):
        identity = str(torch.cuda.get_device_properties(index).uuid)
        assert any(device.endswith(identity) for device in known)
