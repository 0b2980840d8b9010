"""Grants on a GPU node: which size, and what becomes of an action whose device is lost. The services are fakes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from celery.exceptions import Ignore

from tangram_tasks.action import ActionSpec, Demand
from tangram_tasks.context import ActionContext
from tangram_tasks.errors import InvalidAction, NodeLost, ServiceUnavailable
from tangram_tasks.grants import DoneRecord
from tangram_tasks.wire import GRANT_HEADER, HEADER, ActionHeader, GrantHeader
from workers.gpu_node import GpuNode
from workers.gpu_worker import GpuWorker
from workers.grant_unheld import GrantUnheld
from workers.recollection import Recollection
from workers.runtime import Runtime

if TYPE_CHECKING:
    from workers.claims import Claims

PAIRS = {"pairs": [["a", "a"]]}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[GpuNode]:
    file = tmp_path / "services.yaml"
    file.write_text("services:\n  - {name: judge, kind: fake, sizes: [1, 2]}\n")
    made = GpuNode(node="gpu-1", state_dir=tmp_path, services=(str(file),), devices=4, budget_mib=1)
    yield made
    made.stop()


def _apply(node: GpuNode, *sizes: int, units: int, **spec: Any) -> Any:
    asked = ActionSpec(demand=Demand(sizes={"gpu": sizes}), service="judge", timeout=10, **spec)
    grant = GrantHeader(id="1-1-x", node="gpu-1", units=units, granted_at=0.0)
    return GpuWorker("gpu-1", node).apply("a1", ActionHeader(spec=asked), grant)


def _score(context: ActionContext) -> list[Any]:
    assert context.service is not None
    answers: list[Any] = context.service.call("score", PAIRS)
    return answers


def _run(node: GpuNode, body: Callable[[ActionContext], object], **spec: Any) -> None:
    with _apply(node, 1, units=1, **spec) as applied:
        body(applied.context)


@pytest.mark.parametrize(
    ("sizes", "granted", "held"), [((1, 2, 4), 4, 2), ((1, 4), 4, 1), ((1, 2), 2, 2), ((1,), 1, 1)]
)
def test_an_elastic_action_gets_the_largest_of_its_sizes_that_its_service_takes(
    node: GpuNode, sizes: tuple[int, ...], granted: int, held: int
) -> None:
    with _apply(node, *sizes, units=granted) as applied:
        assert applied.context.units == held
        assert sum(not node._claims.idle(index) for index in range(4)) == held


def test_a_size_that_its_service_does_not_take_is_refused(node: GpuNode) -> None:
    with (
        pytest.raises(InvalidAction, match="asks for 4 devices, and service judge takes 1, 2"),
        _apply(node, 4, units=4),
    ):
        pytest.fail("it may not have fewer")


def test_an_action_whose_device_is_lost_runs_again_elsewhere(node: GpuNode) -> None:
    def body(context: ActionContext) -> None:
        assert _score(context) == [1.0]
        node.lose(0)
        _score(context)

    with pytest.raises(GrantUnheld, match="GPU emulated-0 of node gpu-1 is lost"):
        _run(node, body)
    with pytest.raises(NodeLost, match="GPU emulated-0 of node gpu-1 is lost"):
        _run(node, body, on_lost="fail")


def test_an_action_that_hides_the_loss_of_its_device_runs_again_too(node: GpuNode) -> None:
    def body(context: ActionContext) -> None:
        node.lose(0)
        with pytest.raises(NodeLost):
            _score(context)

    with pytest.raises(GrantUnheld):
        _run(node, body)


def test_a_device_that_is_lost_in_a_call_ends_it(node: GpuNode, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()

    def answer(*_: Any) -> list[float]:
        node._claims.retire(0, True)
        node.lose(0)
        hangs.wait(10)
        return [0.0]

    monkeypatch.setattr("workers.fake_service.FakeService.run", answer)
    try:
        with pytest.raises(GrantUnheld):
            _run(node, _score)
        assert node.capacity == {"gpu": 3}, "the lost one is not taken off twice, as lost and as busy"
    finally:
        hangs.set()


def test_the_loss_of_another_device_is_nothing_to_an_action(node: GpuNode) -> None:
    with _apply(node, 1, units=1) as applied:
        node.lose(3)
        assert _score(applied.context) == [1.0]
    with pytest.raises(ServiceUnavailable, match="own fault"), _apply(node, 1, units=1):
        raise ServiceUnavailable("own fault")


class Ledger:
    """The worker's side of the ledger, where every grant stands."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, bool]] = []

    def start(self, grant: str) -> bool:
        return True

    def holds(self, grant: str) -> bool:
        return True

    def done(self, record: DoneRecord, *, requeue: bool) -> bool:
        self.ended.append((record.outcome, requeue))
        return True


def test_the_grant_of_an_action_whose_device_is_lost_goes_back_to_the_queue(node: GpuNode) -> None:
    ledger = Ledger()
    claims = cast("Claims", ledger)
    runtime = Runtime(GpuWorker("gpu-1", node), claims, Recollection(claims, "gpu-1", "g"))
    asked = ActionSpec(demand=Demand(sizes={"gpu": (1,)}), service="judge", timeout=10)
    grant = GrantHeader(id="1-1-x", node="gpu-1", units=1, granted_at=0.0)
    headers = {HEADER: ActionHeader(spec=asked).model_dump(), GRANT_HEADER: grant.model_dump()}
    request = SimpleNamespace(id="a1", task="t", get=headers.get)

    runtime.claim(request)
    with pytest.raises(Ignore), runtime.resources(request):
        node.lose(0)
    runtime.end(grant, "a1", requeue=False)
    assert ledger.ended == [("refused", True)]
