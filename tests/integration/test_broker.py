"""The embedded broker is a real server here."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from compose.broker import broker_config, check_broker, start_broker, throwaway_broker
from compose.supervisor import Supervisor
from tangram_tasks.errors import BrokerUnavailable, ConfigurationError
from tests.waiting import runs, wait_until


def test_it_wants_the_password_and_never_evicts(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    port = redis_url.rpartition(":")[2].removesuffix("/0")
    with pytest.raises(BrokerUnavailable, match=f"redis://127.0.0.1:{port} does not answer"):
        check_broker(f"redis://127.0.0.1:{port}")


def test_the_password_is_on_no_command_line(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    try:
        config = broker_config(tmp_path, persistent=False)
        start_broker(supervisor, config)
        pid = supervisor.status()["broker"].pid
        assert config.password not in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
        assert (tmp_path / "broker.conf").stat().st_mode & 0o777 == 0o600
    finally:
        supervisor.close()


def test_data_outlives_a_kill_and_an_orderly_stop(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    try:
        config = broker_config(tmp_path)
        start_broker(supervisor, config)
        with redis.Redis.from_url(config.url) as client:
            client.set("key", "value")
        supervisor.restart("broker")
        wait_until(lambda: answers(config.url), "the broker is back")
        with redis.Redis.from_url(config.url) as client:
            assert client.get("key") == b"value"
        supervisor.kill("broker")
        wait_until(lambda: supervisor.status()["broker"].restarts == 2, "the broker is started again")
        wait_until(lambda: answers(config.url), "the broker is back")
        with redis.Redis.from_url(config.url) as client:
            assert client.get("key") == b"value"
    finally:
        supervisor.close()


def answers(url: str) -> bool:
    try:
        check_broker(url)
    except BrokerUnavailable:
        return False
    return True


def test_a_throwaway_one_is_gone_after_its_block(tmp_path: Path) -> None:
    with throwaway_broker(tmp_path) as url:
        check_broker(url)
    with pytest.raises(BrokerUnavailable):
        check_broker(url)
    assert not list(tmp_path.glob("**/*.aof"))


def test_it_dies_with_its_parent_by_kill_9(tmp_path: Path) -> None:
    script = f"""
import time
from pathlib import Path
from compose.broker import broker_config, start_broker
from compose.supervisor import Supervisor
folder = Path({str(tmp_path)!r})
supervisor = Supervisor(folder)
start_broker(supervisor, broker_config(folder))
print(supervisor.status()["broker"].pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert runs(pid)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not runs(pid), "the broker is gone")


def test_a_server_that_refuses_its_configuration_shows_its_log(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    try:
        config = broker_config(tmp_path)
        taken = socket.create_server(("127.0.0.1", config.port))  # after it was chosen
        with taken, pytest.raises(BrokerUnavailable, match=r"its log ends:\n[^$]*bind"):
            start_broker(supervisor, config)
    finally:
        supervisor.close()


def test_a_silent_broker_is_an_error_within_5_s_without_the_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        started = time.monotonic()
        with pytest.raises(BrokerUnavailable) as caught:
            check_broker(f"redis://user:secret@127.0.0.1:{port}/0", timeout=1)
        assert time.monotonic() - started < 5
    assert f"redis://user:***@127.0.0.1:{port}/0" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_refused_connection_hides_the_password_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(BrokerUnavailable) as caught:
        check_broker(f"redis://:secret@127.0.0.1:{port}/0")
    assert "secret" not in str(caught.value)


def test_what_is_no_broker_url_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"'http://:\*\*\*@localhost' is not a broker URL"):
        check_broker("http://:secret@localhost")
