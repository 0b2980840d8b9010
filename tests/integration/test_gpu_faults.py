"""What a GPU node does when services thrash, never end, or run out of memory."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported
import torch

from tangram_tasks.errors import ActionTimeout, InvalidAction, ServiceUnavailable
from tests.support import toy_services
from tests.waiting import wait_until
from workers import service_lease
from workers.device_ops import CpuOps
from workers.gpu_node import GpuNode
from workers.replica import Replica

pytestmark = NEEDS_TORCH

TOYS = "tests.support.toy_services"
NAMES = ("small", "large", "tied")
NUMBERS = {"numbers": [0.5, -1.0, 2.0]}

StartNode = Callable[..., GpuNode]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartNode]:
    """Yield a function that starts a node of toys; each device holds any one service but not two."""
    nodes: list[GpuNode] = []

    def start_node(*names: str, **options: Any) -> GpuNode:
        services = tuple(f"{name}={TOYS}:{name}" for name in names or NAMES)
        options = {"devices": 1, "budget_mib": 2, **options}
        nodes.append(GpuNode(node="gpu-1", state_dir=tmp_path, services=services, **options))
        return nodes[-1]

    yield start_node
    for node in nodes:
        node.stop(grace=1.0)


def _ask(node: GpuNode, service: str, action: str = "a1", seconds: float = 30.0) -> list[float]:
    with node.lease(service=service, action=action, units=1, deadline=time.monotonic() + seconds) as lease:
        answers: list[float] = lease.call("score", NUMBERS)
        return answers


def test_interleaved_services_are_each_answered_and_never_on_a_device_twice(
    start: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start(devices=2)
    expected = {name: _ask(node, name) for name in NAMES}
    on_device: Counter[tuple[int, int]] = Counter()
    page_in, page_out = Replica.page_in, Replica.page_out

    def counted_in(self: Replica, offset: int) -> None:
        on_device[id(self._memory), id(self)] += 1
        assert on_device[id(self._memory), id(self)] == 1
        page_in(self, offset)

    def counted_out(self: Replica) -> int:
        on_device[id(self._memory), id(self)] = 0
        return page_out(self)

    monkeypatch.setattr(Replica, "page_in", counted_in)
    monkeypatch.setattr(Replica, "page_out", counted_out)
    for slot in node._slots.devices:
        for name in NAMES:
            slot.pager.park(name)
    pattern = [NAMES[index] for index in (0, 1, 0, 0, 2, 0, 1, 2)]
    before = node.stats()["page_ins"]

    def ask(turn: int) -> None:
        assert _ask(node, pattern[turn % len(pattern)], f"a{turn}") == expected[pattern[turn % len(pattern)]]

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(ask, range(80)))
    moved = node.stats()["page_ins"] - before
    assert 3 <= moved < 80
    assert node.stats()["hits"] + moved + before == 83


def test_a_page_in_that_runs_out_of_memory_harms_nobody_else(start: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node = start()
    expected = _ask(node, "large")

    def half_way(self: CpuOps, target: torch.Tensor, source: torch.Tensor) -> None:
        target[: len(target) // 2].copy_(source[: len(target) // 2])
        raise torch.OutOfMemoryError("half-way")

    with monkeypatch.context() as patched:
        patched.setattr(CpuOps, "copy", half_way)
        with pytest.raises(ServiceUnavailable, match=r"service small could not be paged in.*half-way"):
            _ask(node, "small")
    assert _ask(node, "large") == expected
    with pytest.raises(ServiceUnavailable, match="has failed on device emulated-0"):
        _ask(node, "small")
    node.load("small", deadline=time.monotonic() + 30)
    assert _ask(node, "small")


def test_an_endless_scorer_ends_its_action_and_nobody_elses(start: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_lease, "OVERRUN", 0.1)
    node = start("endless", "small", devices=2)
    with pytest.raises(ActionTimeout, match="service endless, which does not end"):
        _ask(node, "endless", "stuck", seconds=0.2)
    assert node.capacity == {"gpu": 1}
    for turn in range(3):
        assert _ask(node, "small", f"a{turn}")
    toy_services.END.set()
    wait_until(lambda: node.capacity == {"gpu": 2}, "the device to be free again")
    toy_services.END.clear()


def test_services_are_loaded_parked_and_kept_by_hand(start: StartNode) -> None:
    node = start()
    soon = time.monotonic() + 30
    assert node.load("small", deadline=soon).count == 1
    assert node.load("small", deadline=soon).count == 0
    node.keep("small", True)
    with pytest.raises(ServiceUnavailable, match="kept: small"):
        _ask(node, "large", seconds=0.05)
    node.keep("small", False)
    assert _ask(node, "large")
    node.park("large")
    assert node.stats()["resident.large"] == 0
    with pytest.raises(InvalidAction, match="no service 'nope', only: small, large, tied"):
        node.park("nope")


@pytest.mark.parametrize(("page_out", "resident"), [("queue_aware", [1, 0, 1]), ("lru", [0, 1, 1])])
def test_the_queue_says_what_makes_room_unless_lru_is_chosen(
    start: StartNode, page_out: str, resident: list[int]
) -> None:
    node = start("small", "twin", "triplet", budget_mib=3, page_out=page_out)  # room for two
    _ask(node, "small")
    _ask(node, "twin")
    node.outlook.hint(["small"])
    _ask(node, "triplet")
    assert [node.stats()[f"resident.{name}"] for name in node.services] == resident


def test_the_cells_of_a_node_can_be_named(start: StartNode) -> None:
    node = start("small", devices=4, budget_mib=None, cells=[[0, 2], [1, 3]])
    with node.lease(service="small", action="a1", units=2, deadline=time.monotonic() + 30) as lease:
        assert len(lease.call("score", NUMBERS)) == 3
        assert [slot.pager.residency("small").value for slot in node._slots.devices] == [
            "resident",
            "parked",
            "resident",
            "parked",
        ]


def _run_all(works: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def test_a_call_during_a_page_out_is_answered_after_it(start: StartNode) -> None:
    node = start("small")
    expected = _ask(node, "small")
    answers: list[list[float]] = []
    for turn in range(20):
        _run_all(
            [
                lambda: node.park("small", deadline=time.monotonic() + 30),
                lambda turn=turn: answers.append(_ask(node, "small", f"a{turn}")),  # type: ignore[misc]  # bound now
            ]
        )
    assert answers == [expected] * 20
