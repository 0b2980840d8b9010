"""Snapshots of what stands in Redis, and commands whose broker does not answer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from compose.readiness import server_time
from monitoring.status import read_status
from tangram_tasks.keys import Keys
from tangram_tasks.wire import NodeRecord

KEYS = Keys()


@pytest.fixture
def client(clean_redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(clean_redis_url) as client:
        yield client


def announce(client: redis.Redis, name: str, age: float) -> None:
    beat = server_time(client) - age
    record = NodeRecord(node=name, kind="cpu", generation="g", capacity={"cpu": 4}, beat=beat)
    client.hset(KEYS.nodes, name, record.model_dump_json())


def test_an_empty_deployment_is_not_alive(client: redis.Redis) -> None:
    status = read_status(client, KEYS, node_timeout=5)
    assert not status.alive
    assert status.nodes == []
    assert status.waiting == status.granted == status.running == 0


def test_silent_nodes_are_lost_and_strange_records_are_passed_over(client: redis.Redis) -> None:
    announce(client, "fresh", 1)
    announce(client, "silent", 60)
    client.hset(KEYS.nodes, "strange", "{}")
    status = read_status(client, KEYS, node_timeout=5)
    assert [(node.record.node, node.alive) for node in status.nodes] == [("fresh", True), ("silent", False)]
    assert status.nodes[1].age >= 60
    assert status.alive


def test_only_lost_nodes_are_not_alive(client: redis.Redis) -> None:
    announce(client, "silent", 60)
    assert not read_status(client, KEYS, node_timeout=5).alive


def test_numbers_of_actions(client: redis.Redis) -> None:
    client.set(KEYS.leader, "admission@host")
    client.lpush("tangram.admission", "m1", "m2")
    client.hset(KEYS.pending, mapping={"1": "m", "2": "m", "3": "m"})
    client.hset(KEYS.grants, "g", "{}")
    client.lpush(KEYS.dead, "bad")
    status = read_status(client, KEYS, node_timeout=5)
    assert status.leader == "admission@host"
    assert (status.incoming, status.waiting, status.granted, status.running, status.refused) == (2, 3, 1, 0, 1)


@pytest.fixture(autouse=True)
def _own_state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANGRAM_STATE_DIR", str(tmp_path / "state"))


def tangram(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TANGRAM_BROKER_URL": url}
    command = [sys.executable, "-m", "compose.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [["status"], ["scheduler"], ["worker", "cpu"], ["worker", "gpu"], ["up"]])
def test_an_unreachable_broker_is_one_line_without_the_password(arguments: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    run = tangram(f"redis://:secret@127.0.0.1:{port}/0", *arguments)
    assert run.returncode == 1
    assert run.stderr.startswith(f"error: the broker redis://:***@127.0.0.1:{port}/0 does not answer")
    assert run.stderr.count("\n") == 1
    assert "secret" not in run.stderr + run.stdout


def test_a_silent_broker_is_given_up_after_5_s() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        run = tangram(f"redis://:secret@127.0.0.1:{silent.getsockname()[1]}/0", "status")
        assert time.monotonic() - started < 10  # 5 s and the interpreter's start
    assert run.returncode == 1
    assert "secret" not in run.stderr
