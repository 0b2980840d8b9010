"""The command line's manners: help, errors, exit codes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compose.cli import main
from tangram_tasks.settings import settings


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANGRAM_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("TANGRAM_BROKER_URL", raising=False)
    settings.cache_clear()


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["tangram", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code


def test_help_names_every_command_and_the_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not run(monkeypatch, "--help")
    text = capsys.readouterr().out
    for word in ("up", "down", "demo", "status", "scheduler", "worker", "services", "Exit codes", "Examples"):
        assert word in text


@pytest.mark.parametrize("command", [["status"], ["scheduler"], ["worker", "cpu"]])
def test_without_a_broker_one_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert run(monkeypatch, *command) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: no broker")
    assert "tangram up" in error
    assert error.count("\n") == 1


def test_a_wrong_setting_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TANGRAM_CPU_UNIT", "seven")
    assert run(monkeypatch, "status") == 1
    assert "TANGRAM_CPU_UNIT" in capsys.readouterr().err


def test_a_wrong_node_option_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "worker", "cpu", "--cores", "-1") == 1
    assert "cores" in capsys.readouterr().err


def test_down_with_nothing_running_is_fine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert not run(monkeypatch, "down")
    assert "nothing runs" in capsys.readouterr().out
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("arguments", [["nonsense"], ["up", "--port", "x"], ["worker", "api"]])
def test_wrong_usage_exits_with_2(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    assert run(monkeypatch, *arguments) == 2


def test_cores_beside_a_configuration_file_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, "up", "--cores", "1", "--config", str(tmp_path / "stack.toml")) == 2
