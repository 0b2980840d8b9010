"""A standby takes over when the leader is killed or stands still; the old leader can change nothing afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import TangramApp
from tests.support import actions
from tests.waiting import wait_until

WAIT = 20
FAILOVER = 3.0  # s, with the default settings
LOAD = 2.0  # s more, on a busy machine


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=4)}
    node = ApiNodeConfig(name="api-1", providers=providers)
    with Stack(StackConfig(api=(node,), imports=("tests.support.actions",))) as stack:
        yield stack


@pytest.fixture
def standby(stack: Stack) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, **stack.config.environment(stack.broker_url, stack.state_dir)}
    process = subprocess.Popen([sys.executable, "-m", "scheduler"], env=environment)
    yield process
    process.terminate()
    process.wait(20)


def leader(app: TangramApp) -> bytes | None:
    found: bytes | None = app.redis.get(app.keys.leader)  # type: ignore[assignment]  # answers are bytes
    return found


def serves_after(app: TangramApp, moment: float) -> float:
    assert actions.add.delay(1, 2).get(timeout=WAIT, interval=0.02) == 3
    return time.monotonic() - moment


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_standby_leads_within_3_s(
    stack: Stack, app: TangramApp, standby: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    assert actions.add.delay(1, 1).get(timeout=WAIT) == 2
    first = leader(app)
    time.sleep(3.0)  # the standby has started, and waits
    assert leader(app) == first
    pid = stack.children["scheduler"].pid
    assert pid is not None
    os.kill(pid, number)
    took = serves_after(app, time.monotonic())
    assert leader(app) not in (None, first)
    print(f"{number.name}: {took:.2f} s")  # noqa: T201  # the figure for the report
    assert took < FAILOVER + LOAD
    if number == signal.SIGSTOP:
        epoch = app.redis.get(app.keys.epoch)
        os.kill(pid, signal.SIGCONT)
        time.sleep(1.0)
        assert actions.add.delay(2, 2).get(timeout=WAIT) == 4
        assert app.redis.get(app.keys.epoch) == epoch, "the old leader stands by"


def test_a_leader_that_leaves_in_order_hands_over_at_once(
    stack: Stack, app: TangramApp, standby: subprocess.Popen[bytes]
) -> None:
    time.sleep(3.0)
    pid = stack.children["scheduler"].pid
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: leader(app) is not None, "somebody leads")
    assert serves_after(app, time.monotonic()) < FAILOVER + LOAD
