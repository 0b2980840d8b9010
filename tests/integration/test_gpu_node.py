"""The GPU node with toy services on emulated devices. Slabs are poisoned when a service is paged out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported
import torch

from benchmarks.service_models import SERVICES, answer, network
from tangram_tasks.errors import (
    ActionCancelled,
    ActionTimeout,
    InvalidAction,
    ServiceUnavailable,
)
from tangram_tasks.orders import PageIn
from workers.device_ops import CpuOps
from workers.gpu_node import GpuNode
from workers.gpu_worker import GpuWorker
from workers.replica import Replica

pytestmark = NEEDS_TORCH

TOYS = "tests.support.toy_services"
SMALL, LARGE, TIED = f"small={TOYS}:small", f"large={TOYS}:large", f"tied={TOYS}:tied"
NUMBERS = {"numbers": [0.5, -1.0, 2.0, 7.0, 3.25, 60.0]}

StartNode = Callable[..., GpuNode]


@pytest.fixture(autouse=True)
def _poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill a slab with 0xFF (NaN in every float type) when it is given up: a stale view cannot go unnoticed."""
    page_in, page_out = Replica.page_in, Replica.page_out
    slabs: dict[int, int] = {}

    def noting(self: Replica, offset: int) -> None:
        slabs[id(self)] = offset
        page_in(self, offset)

    def poisoning(self: Replica) -> int:
        offset = slabs.pop(id(self), None)
        kept = page_out(self)
        if offset is not None:
            self._memory[offset : offset + self.nbytes].fill_(0xFF)
        return kept

    monkeypatch.setattr(Replica, "page_in", noting)
    monkeypatch.setattr(Replica, "page_out", poisoning)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartNode]:
    """Yield a function that starts a node of toys with one device that holds any one service but not two."""
    nodes: list[GpuNode] = []

    def start_node(*services: str, devices: int = 1, budget_mib: int | None = 2, **options: Any) -> GpuNode:
        node = GpuNode(
            node="gpu-1", state_dir=tmp_path, services=services, devices=devices, budget_mib=budget_mib, **options
        )
        nodes.append(node)
        return node

    yield start_node
    for node in nodes:
        node.stop()


@pytest.fixture
def tight(start: StartNode) -> GpuNode:
    """A node with one device that has room for any one of its three services, and never for two."""
    return start(SMALL, LARGE, TIED)


def _ask(node: GpuNode, service: str, action: str = "a1", units: int = 1, seconds: float = 30.0) -> list[float]:
    with node.lease(service=service, action=action, units=units, deadline=time.monotonic() + seconds) as lease:
        answers: list[float] = lease.call("score", NUMBERS)
        return answers


def test_answers_are_bit_equal_however_often_services_are_paged(tight: GpuNode) -> None:
    first = {name: _ask(tight, name) for name in tight.services}
    for _ in range(10):
        assert {name: _ask(tight, name) for name in tight.services} == first

    stats = tight.stats()
    assert stats["page_ins"] == 33
    assert stats["page_outs"] == 32
    assert stats["bytes_in"] > 33 * 2**20
    assert stats["hits"] == 0
    assert [stats[f"resident.{name}"] for name in ("small", "large", "tied")] == [0, 0, 1]


def test_answers_are_those_of_the_module_that_was_never_paged(tight: GpuNode) -> None:
    from tests.support.toy_services import Scorer

    with torch.inference_mode():
        expected = [Scorer(680, seed=2).eval()(torch.tensor(NUMBERS["numbers"][at : at + 4])) for at in (0, 4)]
    assert _ask(tight, "large") == torch.cat(expected).tolist()


def test_a_resident_service_costs_no_copy(tight: GpuNode) -> None:
    _ask(tight, "small")
    with tight.lease(service="small", action="a2", units=1, deadline=time.monotonic() + 30) as lease:
        assert lease.usage.page_ins == 0
        assert lease.usage.restore_s == 0.0
    assert tight.stats()["hits"] == 1


def test_a_module_refuses_to_run_outside_a_lease(tight: GpuNode) -> None:
    replica = tight._slots.devices[0].replicas["small"]
    assert isinstance(replica, Replica)
    with pytest.raises(ServiceUnavailable, match="service small was run outside a lease"):
        replica.module(torch.ones(1))
    _ask(tight, "small")
    with pytest.raises(ServiceUnavailable, match="outside a lease"):
        replica.module(torch.ones(1))


def test_threads_that_fight_for_the_device_all_get_right_answers(tight: GpuNode) -> None:
    expected = {name: _ask(tight, name) for name in tight.services}

    def hammer(thread: int) -> None:
        for turn in range(25):
            name = tight.services[(thread + turn) % 3]
            assert _ask(tight, name, f"a{thread}-{turn}") == expected[name]

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(hammer, range(2)))
    assert tight.stats()["page_outs"] > 25
    assert not tight.cancel("a0-0")


def test_two_services_that_share_a_device_run_at_the_same_time_when_both_fit(start: StartNode) -> None:
    node = start(SMALL, LARGE, devices=2, budget_mib=4)
    expected = {name: _ask(node, name) for name in node.services}

    def hammer(name: str) -> None:
        for turn in range(25):
            assert _ask(node, name, f"{name}-{turn}") == expected[name]

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(hammer, node.services))


def test_several_devices_answer_one_call_with_the_same_numbers(start: StartNode) -> None:
    node = start(TIED, LARGE, devices=3)
    alone = _ask(node, "tied")

    with node.lease(service="tied", action="a2", units=3, deadline=time.monotonic() + 30) as lease:
        assert lease.usage.page_ins == 2  # one device had it already
        assert lease.call("score", NUMBERS) == alone
    assert node.capacity == {"gpu": 3}
    assert node.stats()["resident.tied"] == 3


def test_a_leased_device_makes_others_wait_until_their_deadline(tight: GpuNode) -> None:
    with (
        tight.lease(service="small", action="holder", units=1, deadline=time.monotonic() + 30),
        pytest.raises(ServiceUnavailable, match=r"action late got no 1 of 1 devices before its deadline.*holder"),
        tight.lease(service="large", action="late", units=1, deadline=time.monotonic() + 0.05),
    ):
        pytest.fail("the only device is held")
    assert _ask(tight, "large", "late")


def test_a_page_in_that_finds_nothing_to_page_out_ends_at_the_deadline(tight: GpuNode) -> None:
    pager = tight._slots.devices[0].pager
    with (
        pager.pin("small", action="holder", deadline=time.monotonic() + 30),
        pytest.raises(ServiceUnavailable, match=r"service large \(1\.8 MiB\) found no room .*holder"),
        pager.pin("large", action="late", deadline=time.monotonic() + 0.05),
    ):
        pytest.fail("both cannot fit")


def test_a_deadline_that_passed_is_a_timeout(tight: GpuNode) -> None:
    with pytest.raises(ActionTimeout, match="action a1"):
        _ask(tight, "small", seconds=-1)


def test_a_cancelled_action_gets_no_further_batch(tight: GpuNode) -> None:
    with tight.lease(service="small", action="a1", units=1, deadline=time.monotonic() + 30) as lease:
        assert lease.call("score", NUMBERS)
        assert tight.cancel("a1")
        with pytest.raises(ActionCancelled, match="a1"):
            lease.call("score", NUMBERS)
    assert not tight.cancel("a1")


def test_a_lease_cannot_be_used_after_its_end(tight: GpuNode) -> None:
    with tight.lease(service="small", action="a1", units=1, deadline=time.monotonic() + 30) as lease:
        pass
    with pytest.raises(ServiceUnavailable, match="has ended"):
        lease.call("score", NUMBERS)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"service": "nope"}, "no service 'nope', only: small, large, tied"),
        ({"units": 2}, "asks for 2 of 1 devices"),
        ({"units": 0}, "asks for 0 of 1"),
    ],
)
def test_a_lease_that_can_never_be_is_refused_at_once(tight: GpuNode, changes: dict[str, Any], named: str) -> None:
    asked: dict[str, Any] = {"service": "small", "action": "a1", "units": 1, "deadline": time.monotonic() + 30}
    with pytest.raises(InvalidAction, match=named), tight.lease(**{**asked, **changes}):
        pytest.fail("it was given")


def test_an_unknown_method_names_the_known_ones(tight: GpuNode) -> None:
    with (
        tight.lease(service="small", action="a1", units=1, deadline=time.monotonic() + 30) as lease,
        pytest.raises(InvalidAction, match="service small has no method 'rank', only: score"),
    ):
        lease.call("rank", NUMBERS)


def test_a_fault_of_the_model_is_never_a_score(start: StartNode) -> None:
    node = start(f"broken={TOYS}:broken")
    with pytest.raises(ServiceUnavailable, match=r"service broken failed in score on cpu.*matrix on fire"):
        _ask(node, "broken")


def test_a_copy_with_wrong_bytes_is_noticed_and_not_used(tight: GpuNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def corrupting(self: CpuOps, target: torch.Tensor, source: torch.Tensor) -> None:
        target.copy_(source)
        target[3] ^= 1

    monkeypatch.setattr(CpuOps, "copy", corrupting)
    with pytest.raises(ServiceUnavailable, match="differs from its host image"):
        _ask(tight, "small")
    monkeypatch.undo()
    with pytest.raises(ServiceUnavailable, match="has failed on device emulated-0"):
        _ask(tight, "small")
    assert _ask(tight, "large")


def test_changes_of_a_declared_buffer_outlive_page_outs(start: StartNode) -> None:
    node = start(f"counting={TOYS}:counting", SMALL, LARGE)
    assert _ask(node, "counting") == [8.5] * 4 + [71.75] * 2  # two batches
    _ask(node, "large")
    _ask(node, "small")
    assert node.stats()["resident.counting"] == 0
    assert _ask(node, "counting")[0] == 71.75 + 8.5


def test_changes_of_an_undeclared_buffer_fail_the_action(start: StartNode) -> None:
    node = start(f"counting={TOYS}:counting_undeclared")
    with pytest.raises(ServiceUnavailable, match="changed total in a call: declare it mutable"):
        _ask(node, "counting")


def test_without_a_budget_everything_fits(start: StartNode) -> None:
    node = start(SMALL, LARGE, TIED, budget_mib=None)
    for name in node.services * 2:
        _ask(node, name)
    assert node.stats()["page_outs"] == 0
    assert node.stats()["page_ins"] == 3


def test_a_stopped_node_gives_its_memory_back_and_refuses(start: StartNode) -> None:
    node = start(SMALL)
    _ask(node, "small")
    node.stop()
    node.stop()

    assert node.services == ()
    with pytest.raises(ServiceUnavailable, match="is stopping: action a1"):
        _ask(node, "small")


def test_stopping_cancels_what_still_runs(start: StartNode) -> None:
    node = start(SMALL)
    with node.lease(service="small", action="a1", units=1, deadline=time.monotonic() + 30) as lease:
        node.stop(grace=0.0)
        with pytest.raises(ActionCancelled):
            lease.call("score", NUMBERS)


def test_a_hint_pages_in_ahead_and_takes_nothing_from_who_computes(start: StartNode) -> None:
    node = start(SMALL, LARGE, devices=2)
    worker = GpuWorker("gpu-1", node)
    worker.obey(PageIn(service="small", devices=(0, 1)))
    assert node.stats()["resident.small"] == 2
    with node.lease(service="small", action="a1", units=1, deadline=time.monotonic() + 30) as lease:
        assert lease.usage.page_ins == 0
        worker.obey(PageIn(service="large", devices=(0, 1, 7)))
        assert node.stats()["resident.large"] == 1, "one device is in use, and there is no eighth"
        assert lease.call("score", NUMBERS)
    node.stop()
    worker.obey(PageIn(service="small", devices=(0,)))
    assert node.stats()["page_ins"] == 3


def test_the_first_answer_of_a_device_is_like_the_later_ones(start: StartNode) -> None:
    """A new thread's first product would use all cores, and round differently."""
    node = start(SERVICES[0], budget_mib=None, threads=1)
    (name,) = node.services
    with torch.inference_mode():
        expected = answer(network(0), NUMBERS["numbers"])
    assert [_ask(node, name) for _ in range(3)] == [expected] * 3
