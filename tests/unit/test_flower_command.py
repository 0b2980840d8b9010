"""`tangram flower` never listens everywhere by accident, and refuses a password that Flower would misread."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from compose.commands.flower import flower
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.settings import settings


def run(*arguments: str) -> tuple[int, str, BaseException | None]:
    result = CliRunner().invoke(flower, arguments)
    return result.exit_code, result.output, result.exception


@pytest.fixture(autouse=True)
def _a_broker_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANGRAM_BROKER_URL", "redis://:hidden@127.0.0.1:1/0")
    monkeypatch.setattr("compose.broker.check_broker", lambda url: None)
    settings.cache_clear()


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """What the process would have become."""
    seen: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr("os.execve", lambda path, arguments, environment: seen.append((arguments, environment)))
    return seen


def test_it_listens_on_loopback_and_no_secret_is_on_the_command_line(
    replaced: list[tuple[list[str], dict[str, str]]],
) -> None:
    code, output, _ = run()
    assert code == 0
    ((arguments, environment),) = replaced
    assert "--address=127.0.0.1" in arguments
    user, _, password = environment["FLOWER_BASIC_AUTH"].partition(":")
    assert (user, len(password) >= 16) == ("tangram", True)
    assert password in output
    assert password not in " ".join(arguments)
    assert "hidden" not in " ".join(arguments) + output


@pytest.mark.parametrize("arguments", [("--address", ""), ("--user", "a:b"), ("--user", "")])
def test_wrong_usage(arguments: tuple[str, str]) -> None:
    assert run(*arguments)[0] == 2


@pytest.mark.parametrize(("content", "why"), [(None, "cannot read"), ("\n", "is empty"), ("a,b\n", "comma")])
def test_a_bad_password_file_is_refused(tmp_path: Path, content: str | None, why: str) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_text(content)
    error = run("--password-file", str(file))[2]
    assert isinstance(error, ConfigurationError)
    assert why in str(error)
