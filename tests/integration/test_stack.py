"""Whole deployments of real processes, with API nodes only so that no Docker and no torch is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from compose.embedded import Stack
from compose.readiness import announced, server_time
from compose.stack_config import ApiNodeConfig, GpuNodeConfig, ProviderConfig, StackConfig
from tangram_tasks.errors import BrokerUnavailable, ConfigurationError
from tangram_tasks.keys import Keys
from tests.waiting import runs, wait_until

API = ApiNodeConfig(name="api-1", providers={"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=2)})


def test_a_stack_comes_up_heals_and_leaves_nothing() -> None:
    with Stack(StackConfig(persistent=False, api=(API,))) as stack:
        folder = stack.state_dir
        before = stack.children
        assert list(before) == ["broker", "scheduler", "api-1"]
        pids = [child.pid for child in before.values() if child.pid]
        assert all(runs(pid) for pid in pids)
        stack.kill("api-1")
        wait_until(lambda: stack.children["api-1"].restarts == 1, "the node is started again")
        with redis.Redis.from_url(stack.broker_url) as client:
            since = server_time(client)
            wait_until(lambda: "api-1" in announced(client, Keys(), since), "the node is announced again")
        pids += [child.pid for child in stack.children.values() if child.pid]
    assert [pid for pid in pids if runs(pid)] == []
    assert not folder.exists()
    with pytest.raises(ConfigurationError, match="does not run"):
        _ = stack.children


def test_a_node_that_cannot_start_shows_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    broken = StackConfig(persistent=False, state_dir=tmp_path, api=(API,), imports=("no_such_module",))
    started = time.monotonic()
    with (
        pytest.raises(ConfigurationError, match=r"(?s)api-1 ended .* ends:.*cannot import no_such_module"),
        Stack(broken),
    ):
        pass
    assert time.monotonic() - started < 50, "it gives up before the time limit"
    assert not (tmp_path / "broker.url").exists()
    with Stack(StackConfig(persistent=False, state_dir=tmp_path)):
        pass


def test_a_node_that_is_late_shows_its_log(tmp_path: Path) -> None:
    slow = StackConfig(persistent=False, state_dir=tmp_path, gpu=(GpuNodeConfig(name="gpu-1"),))
    with pytest.raises(ConfigurationError, match=r"was not ready within 0\.2 s; its log"), Stack(slow, ready_limit=0.2):
        pass


def test_a_second_stack_in_the_same_folder_learns_who_holds_it(tmp_path: Path) -> None:
    config = StackConfig(persistent=False, state_dir=tmp_path)
    with Stack(config), pytest.raises(ConfigurationError, match=f"process {os.getpid()} runs tangram"), Stack(config):
        pass


def test_a_broker_of_ones_own_must_answer(tmp_path: Path, clean_redis_url: str) -> None:
    with Stack(StackConfig(broker_url=clean_redis_url, state_dir=tmp_path, api=(API,))) as stack:
        assert list(stack.children) == ["scheduler", "api-1"]
    unreachable = StackConfig(broker_url="redis://:secret@127.0.0.1:1/0", state_dir=tmp_path)
    with pytest.raises(BrokerUnavailable, match=r"redis://:\*\*\*@127\.0\.0\.1:1/0"), Stack(unreachable):
        pass


class Up:
    """A `tangram up` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        config = folder / "stack.toml"
        config.write_text(
            'persistent = false\n[[api]]\nname = "api-1"\n[api.providers.noop]\n'
            'base_url = "http://127.0.0.1:9"\nconcurrency = 2\n',
            encoding="utf-8",
        )
        self.environment = {**os.environ, "TANGRAM_STATE_DIR": str(folder / "state"), "NO_COLOR": "1"}
        self.environment.pop("TANGRAM_BROKER_URL", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "compose.cli", "up", "--config", str(config)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("Running"):
                break
        assert self.lines, "it printed nothing"
        assert self.lines[-1].startswith("Running"), "".join(self.lines)

    def pids(self) -> list[int]:
        return [int(line.split()[2].rstrip(",")) for line in self.lines if " pid " in line]

    def tangram(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "compose.cli", *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    up = Up(tmp_path)
    with up.process:  # closes its pipe
        yield up
        up.process.kill()


def test_up_status_down(up: Up, tmp_path: Path) -> None:
    password = (tmp_path / "state" / "broker.url").read_text(encoding="utf-8").split(":")[2].split("@")[0]
    status = up.tangram("status", "-o", "json")
    assert status.returncode == 0
    snapshot = json.loads(status.stdout)
    assert snapshot["leader"].startswith("admission@")
    assert [node["record"]["node"] for node in snapshot["nodes"]] == ["api-1"]
    table = up.tangram("status")
    assert "api-1" in table.stdout
    assert "\x1b[" not in table.stdout
    assert password not in table.stdout + "".join(up.lines)
    down = up.tangram("down")
    assert f"stopped process {up.process.pid}" in down.stdout
    assert up.process.wait(20) == 128 + signal.SIGTERM
    assert [pid for pid in up.pids() if runs(pid)] == []
    after = up.tangram("status")
    assert after.returncode == 1
    assert "no broker" in after.stderr


def test_ctrl_c_stops_everything(up: Up) -> None:
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(20) == 130
    assert [pid for pid in up.pids() if runs(pid)] == []


def test_kill_9_of_up_leaves_no_process(up: Up) -> None:
    assert len(up.pids()) == 3
    up.process.kill()
    up.process.wait()
    wait_until(lambda: not any(runs(pid) for pid in up.pids()), "all children are gone")
    assert "nothing runs" in up.tangram("down").stdout


def test_status_without_nodes_exits_with_1(clean_redis_url: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TANGRAM_BROKER_URL": clean_redis_url, "TANGRAM_STATE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "compose.cli", "status"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    assert "none leads" in run.stdout
