"""Host images on disk, and calls that start while their service is still on its way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported
import torch
from torch import Tensor, nn

from tangram_tasks.errors import ConfigurationError, ServiceUnavailable
from tests.support.toy_services import CountingScorer, Scorer, TiedScorer
from workers.device_ops import CpuOps
from workers.gpu_node import GpuNode
from workers.host_image import HostImage
from workers.host_memory import HostMemory
from workers.layers import layers_of
from workers.pageable import tensors_of
from workers.replica import Replica

pytestmark = NEEDS_TORCH

TOYS = "tests.support.toy_services"
NUMBERS = {"numbers": [0.5, -1.0, 2.0]}

StartNode = Callable[..., GpuNode]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartNode]:
    """Yield a function that starts a node of toys with one device that holds any one but not two."""
    nodes: list[GpuNode] = []

    def start_node(*names: str, **options: Any) -> GpuNode:
        services = tuple(f"{name}={TOYS}:{name}" for name in names)
        nodes.append(
            GpuNode(node="gpu-1", state_dir=tmp_path, services=services, **{"devices": 1, "budget_mib": 2, **options})
        )
        return nodes[-1]

    yield start_node
    for node in nodes:
        node.stop()


def _ask(node: GpuNode, service: str) -> list[float]:
    with node.lease(service=service, action="a1", units=1, deadline=time.monotonic() + 30) as lease:
        answers: list[float] = lease.call("score", NUMBERS)
        return answers


class Ops(CpuOps):
    """Counts the host memory it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0

    def host_buffer(self, nbytes: int) -> Tensor:
        self.held += nbytes
        return super().host_buffer(nbytes)

    def free_host(self, buffer: Tensor) -> None:
        self.held -= buffer.numel()


def _replica(module: nn.Module, ops: CpuOps, **options: Any) -> tuple[Replica, HostImage]:
    image = HostImage.from_module(module.eval(), ops)
    return Replica("toy", module, image, ops, ops.arena(image.nbytes), **options), image


def test_answers_are_bit_equal_when_images_come_from_disk(start: StartNode) -> None:
    names = ("small", "large", "tied")
    roomy = start(*names)
    expected = {name: _ask(roomy, name) for name in names}
    tight = start(*names, host_budget_mib=2)
    for _ in range(3):
        assert {name: _ask(tight, name) for name in names} == expected
    assert sum(tight.stats().get(f"cold.{name}", 0.0) for name in names) == 2


def test_without_any_host_memory_services_are_paged_in_from_disk(start: StartNode) -> None:
    node = start("small", "large", host_budget_mib=0)
    expected = {name: _ask(start(name), name) for name in ("small", "large")}
    assert {name: _ask(node, name) for name in ("small", "large")} == expected
    assert node.stats()["cold.small"] == node.stats()["cold.large"] == 1


def test_a_disk_that_takes_no_image_stops_the_node_at_its_start(start: StartNode, tmp_path: Path) -> None:
    (tmp_path / "images").write_text("a file where the folder should be")
    with pytest.raises(ConfigurationError, match=r"service small: .*cannot be written to .*images"):
        start("small", host_budget_mib=0)


def test_the_least_used_image_becomes_cold_and_its_parked_module_still_reads(tmp_path: Path) -> None:
    ops = Ops()
    modules = {name: Scorer(64, seed=seed) for seed, name in enumerate("abc")}
    before = {name: {key: value.clone() for key, value in one.state_dict().items()} for name, one in modules.items()}
    pairs = {name: _replica(module, ops) for name, module in modules.items()}
    memory = HostMemory(2 * pairs["a"][1].nbytes, tmp_path)
    for name, (_, image) in pairs.items():
        memory.add(name, image)
    assert memory.cold == ("a",)
    for name in "ab":
        pairs[name][0].page_in(0)
        pairs[name][0].page_out()
    assert memory.cold == ("c",)
    assert ops.held == 2 * pairs["a"][1].nbytes
    for name, module in modules.items():
        assert all(torch.equal(value, before[name][key]) for key, value in module.state_dict().items())
    assert list(tmp_path.iterdir()) == []  # nothing stays behind


def test_an_image_in_use_stays_in_memory(tmp_path: Path) -> None:
    ops = Ops()
    images = {name: _replica(Scorer(64, seed=1), ops)[1] for name in "ab"}
    memory = HostMemory(images["a"].nbytes, tmp_path)
    for name, image in images.items():
        memory.add(name, image)
    with images["a"].hold():
        assert memory.cold == ("b",)
        with images["b"].hold() as where:
            assert where is images["b"].buffer
            assert memory.cold == ("b",)  # used where it lies
    with images["b"].hold():
        assert memory.cold == ("a",)


def test_an_image_that_calls_change_stays_in_memory(tmp_path: Path) -> None:
    image = HostImage.from_module(CountingScorer().eval(), CpuOps(), mutable=["total"])
    memory = HostMemory(0, tmp_path)
    memory.add("counting", image)
    assert memory.cold == ()


def test_layers_hold_each_byte_once_and_what_is_shared_comes_first() -> None:
    module = Scorer(16, seed=0)
    image = HostImage.from_module(module.eval(), CpuOps())
    layers = layers_of(module, tensors_of(module), image.segments)
    assert [layer.module for layer in layers] == [module, *module.layers]
    covered = sorted(run for layer in layers for run in layer.extents)
    assert all(before[1] <= after[0] for before, after in pairwise(covered))
    assert sum(stop - start for start, stop in covered) == image.nbytes
    tied = TiedScorer(seed=0).eval()
    (only,) = layers_of(tied, tensors_of(tied), HostImage.from_module(tied, CpuOps()).segments)
    assert only.module is tied


class Gated(CpuOps):
    """Copies one piece per permission."""

    def __init__(self) -> None:
        super().__init__()
        self.permits = threading.Semaphore(0)

    def copy(self, target: Tensor, source: Tensor) -> None:
        assert self.permits.acquire(timeout=10)
        target.copy_(source)


def test_a_call_starts_before_the_last_layer_is_there_and_waits_for_it() -> None:
    module, ops = Scorer(16, seed=0), Gated()
    with torch.inference_mode():
        expected = module(torch.ones(3))
    replica, _ = _replica(module, ops, overlap=True)
    replica.page_in(0)
    replica.leased = True
    reached: list[int] = []
    for at, layer in enumerate(module.layers):
        layer.register_forward_pre_hook(lambda *_, at=at: reached.append(at))
    answers: list[Tensor] = []

    def call() -> None:
        with torch.inference_mode():
            answers.append(module(torch.ones(3)))

    thread = threading.Thread(target=call)
    thread.start()
    ops.permits.release(2)  # what is outside, and the first layer
    while 0 not in reached:
        thread.join(0.01)
    assert 2 not in reached  # it has weights of its own; layer 1 has none
    ops.permits.release(10)
    thread.join(10)
    assert torch.equal(answers[0], expected)
    assert replica.settle() == ""


def test_a_wrong_byte_is_told_when_the_lease_ends(monkeypatch: pytest.MonkeyPatch, start: StartNode) -> None:
    node = start("small", overlap=True)
    assert _ask(node, "small")
    node.park("small")
    copy, once = CpuOps.copy, iter([True])

    def corrupting(self: CpuOps, target: Tensor, source: Tensor) -> None:
        copy(self, target, source)
        if next(once, False):
            target[3] ^= 1

    monkeypatch.setattr(CpuOps, "copy", corrupting)
    with pytest.raises(ServiceUnavailable, match="differs from its host image"):
        _ask(node, "small")


def test_overlapped_answers_are_bit_equal(start: StartNode) -> None:
    names = ("small", "large", "tied")
    plain, overlapped = start(*names), start(*names, overlap=True, link_gbps=0.5)
    for _ in range(3):
        assert {name: _ask(overlapped, name) for name in names} == {name: _ask(plain, name) for name in names}
    assert overlapped.stats()["page_ins"] == 9


def test_new_addresses_are_told_and_counted() -> None:
    ops, seen = CpuOps(), list[nn.Module]()
    module = Scorer(16, seed=0)
    image = HostImage.from_module(module.eval(), ops)
    replica = Replica("toy", module, image, ops, ops.arena(3 * image.nbytes), on_relocate=seen.append)
    for offset in (0, 0, image.nbytes, 0):
        replica.page_in(offset)
        replica.page_out()
    assert replica.generation == 3
    assert seen == [module] * 3
