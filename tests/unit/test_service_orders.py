"""What is ordered by hand of the services of a GPU node. No torch: the services are fakes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tangram_tasks.errors import ServiceUnavailable
from tangram_tasks.orders import ServiceAnswer, ServiceOrder
from workers import fake_service
from workers.gpu_node import GpuNode
from workers.service_orders import obey_service_order

DECLARED = """
services:
  - {name: pair, kind: fake, sizes: [2], canary: {payload: {pairs: [[a, a]]}, expected: [1.0]}}
  - {name: single, kind: fake, sizes: [1, 2]}
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[GpuNode]:
    file = tmp_path / "services.yaml"
    file.write_text(DECLARED)
    made = GpuNode(node="gpu-1", state_dir=tmp_path, services=(str(file),), devices=2, budget_mib=1)
    yield made
    made.stop()


def _obey(node: GpuNode, verb: Any, service: str) -> ServiceAnswer:
    return obey_service_order(node, ServiceOrder(verb=verb, service=service, reply="r1", timeout=10))


def _fail(monkeypatch: pytest.MonkeyPatch, work: Callable[..., Any], error: Exception) -> None:
    def raise_it(*_: Any) -> None:
        raise error

    monkeypatch.setattr(fake_service.FakeReplica, work.__name__, raise_it)


def test_a_canary_is_asked_on_as_many_devices_as_its_service_takes(node: GpuNode) -> None:
    answer = _obey(node, "canary", "pair")
    assert (answer.ok, answer.message) == (True, "pair answers its canary rightly")


def test_two_people_may_ask_one_canary(node: GpuNode) -> None:
    with node.lease(service="single", action="canary of pair", units=1, deadline=time.monotonic() + 10):
        answer = obey_service_order(node, ServiceOrder(verb="canary", service="pair", reply="r2", timeout=0.05))
    assert "got no 2 of 2 devices before its deadline" in answer.message


def test_an_error_that_nobody_thought_of_is_answered(node: GpuNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "park", lambda *_, **__: 1 / 0)
    answer = _obey(node, "park", "single")
    assert not answer.ok
    assert answer.message == "park of single: ZeroDivisionError('division by zero'); see the node's log"


def test_a_service_that_failed_is_tried_again_wherever_it_failed(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        _fail(broken, fake_service.FakeReplica.page_in, RuntimeError("the link is down"))
        for action in ("a1", "a2"):
            with (
                pytest.raises(ServiceUnavailable, match="the link is down"),
                node.lease(service="single", action=action, units=1, deadline=time.monotonic() + 10),
            ):
                pytest.fail("it cannot be paged in")
    assert [state.state for state in node.states("single")] == ["failed", "failed"]

    assert _obey(node, "load", "single").ok
    assert [state.state for state in node.states("single")] == ["resident", "resident"]
