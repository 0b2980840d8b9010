"""A GPU worker is killed while an action holds a lease: the action runs again, and the devices' books are right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compose.embedded import Stack
from compose.stack_config import GpuNodeConfig, StackConfig
from tangram_tasks import TangramApp
from tangram_tasks.wire import NodeRecord
from tests.support.gpu_actions import ask
from tests.support.torch_tests import NEEDS_TORCH
from tests.waiting import wait_until

pytestmark = [NEEDS_TORCH, pytest.mark.chaos, pytest.mark.timeout(300)]

TOYS = "tests.support.toy_services"
NUMBERS = [0.5, -1.0, 2.0]
WAIT = 120


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file by which the service `slow_once` knows that it was asked before."""
    path = tmp_path / "asked"
    monkeypatch.setenv("TOY_MARKER", str(path))
    return path


@pytest.fixture
def stack(marker: Path) -> Iterator[Stack]:
    services = tuple(f"{name}={TOYS}:{name}" for name in ("slow_once", "small", "large"))
    config = StackConfig(
        persistent=False,
        gpu=(GpuNodeConfig(name="gpu-1", devices=1, budget_mib=2, services=services),),
        imports=("tests.support.gpu_actions",),
        settings={"heartbeat": "0.3", "node_timeout": "2"},
    )
    with Stack(config, ready_limit=120) as running:
        yield running


def _node(app: TangramApp) -> NodeRecord | None:
    row: Any = app.redis.hget(app.keys.nodes, "gpu-1")
    return None if row is None else NodeRecord.model_validate_json(row)


def test_a_killed_gpu_worker_loses_no_action_and_no_memory(stack: Stack, marker: Path) -> None:
    app = TangramApp("client", broker=stack.broker_url)
    app.set_current()
    try:
        expected = ask.delay("small", NUMBERS).get(timeout=WAIT)
        before = _node(app)
        held = ask.delay("slow_once", NUMBERS)
        waiting = [ask.delay(name, NUMBERS) for name in ("small", "large", "small")]
        wait_until(marker.exists, "the service to be asked", WAIT)
        stack.kill("gpu-1")
        assert len(held.get(timeout=WAIT)) == 3
        answers = [one.get(timeout=WAIT) for one in waiting]
        assert answers[0] == answers[2] == expected
        after = _node(app)
        assert before is not None
        assert after is not None
        assert after.generation != before.generation
        assert after.capacity == {"gpu": 1}
        wait_until(lambda: not app.redis.hlen(app.keys.grants), "the books to be empty")
        assert ask.delay("large", NUMBERS).get(timeout=WAIT) == answers[1]  # the budget is all there
    finally:
        app.close()
