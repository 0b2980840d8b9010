"""A record of a real scheduler: it replays to the same decisions, and other policies run on its arrivals."""

from __future__ import annotations

from pathlib import Path

import pytest

from compose.embedded import Stack
from compose.simulate.machines import Costs
from compose.simulate.policies import simulate
from compose.simulate.replay import recorded_batch, replay
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from scheduler.record import read_record
from tangram_tasks import TangramApp
from tests.support import actions

ACTIONS = 20


def test_a_real_run_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "events.jsonl"
    monkeypatch.setenv("TANGRAM_RECORD", str(file))
    provider = ProviderConfig(base_url="http://127.0.0.1:9", concurrency=2, per_second=50, burst=5)
    node = ApiNodeConfig(name="api-1", providers={"noop": provider})
    with Stack(StackConfig(persistent=False, api=(node,), imports=("tests.support.actions",))) as stack:
        app = TangramApp("client", broker=stack.broker_url)
        app.set_current()
        results = [actions.add.delay(number, 1) for number in range(ACTIONS)]
        assert [result.get(timeout=30) for result in results] == [number + 1 for number in range(ACTIONS)]
        app.close()
    leads = read_record(file)
    found = replay(leads)
    assert found.difference is None
    assert found.decisions >= ACTIONS
    batch, cluster = recorded_batch(leads)
    assert cluster.providers["noop"].per_second == 50
    outcome = simulate("paper", cluster, batch, Costs())
    assert len(outcome.finished) == batch.actions >= ACTIONS // 2  # the scheduler may stop before it hears of the last
