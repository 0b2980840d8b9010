"""The embedded broker's configuration file."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from compose.broker import BrokerConfig, broker_config
from compose.state_dir import write_private
from tangram_tasks.errors import ConfigurationError


def lines(config: BrokerConfig) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in config.text().splitlines())


def test_it_listens_on_loopback_with_a_password_and_never_forgets() -> None:
    config = lines(BrokerConfig(Path("/data"), 7000, "secret"))
    assert config["bind"] == "127.0.0.1"
    assert config["port"] == "7000"
    assert config["requirepass"] == "secret"
    assert config["maxmemory-policy"] == "noeviction"
    assert config["appendonly"] == "yes"
    assert config["appendfsync"] == "everysec"


def test_a_throwaway_one_keeps_nothing() -> None:
    config = lines(BrokerConfig(Path("/data"), 7000, "secret", persistent=False))
    assert config["appendonly"] == "no"
    assert config["save"] == '""'


def test_a_folder_with_spaces_and_quotes_stays_one_word() -> None:
    assert lines(BrokerConfig(Path('/my "data'), 7000, "secret"))["dir"] == '"/my \\"data"'


def test_passwords_are_long_and_differ(tmp_path: Path) -> None:
    passwords = {broker_config(tmp_path).password for _ in range(5)}
    assert len(passwords) == 5
    assert all(len(password) >= 32 for password in passwords)


def test_the_url_holds_the_password() -> None:
    assert BrokerConfig(Path("/data"), 7000, "secret").url == "redis://default:secret@127.0.0.1:7000/0"


def test_a_taken_port_is_refused_by_name(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} on 127.0.0.1"):
            broker_config(tmp_path, port=port)


def test_private_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("old", encoding="utf-8")
    file.chmod(0o644)
    write_private(file, "new")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text(encoding="utf-8") == "new"
