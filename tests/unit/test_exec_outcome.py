"""From the agent's answer to results and errors."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tangram_tasks.errors import ActionCancelled, ActionOutOfMemory, ActionTimeout, SandboxError, SpawnFailed
from workers.agent_client import Answer
from workers.exec_outcome import exec_result, raise_refusal, raise_verdict


def answer(body: bytes = b"out\nerr\n", **fields: Any) -> Answer:
    header = {
        "exit_code": 0,
        "verdict": "",
        "duration": 1.5,
        "cpu_seconds": 0.5,
        "peak_memory": 9,
        "truncated": False,
        "stdout": 4,
    }
    return Answer({**header, **fields}, body)


def test_streams_are_split_and_bad_utf8_is_replaced() -> None:
    result = exec_result(answer(b"o\xff\n\nerr", stdout=4))
    assert (result.stdout, result.stderr) == ("o\ufffd\n\n", "err")


@pytest.mark.parametrize(
    ("fields", "out_of_memory", "error", "message"),
    [
        ({"verdict": "timed_out"}, False, ActionTimeout, r"action a: ls -l ran 1.5 s.*killed; last output: out\nerr$"),
        ({"verdict": "cancelled"}, False, ActionCancelled, "action a: ls -l was cancelled after 1.5 s"),
        ({"exit_code": 137}, True, ActionOutOfMemory, "action a: ls -l ran out of the sandbox's memory"),
        ({"verdict": "timed_out", "exit_code": 137}, True, ActionTimeout, "ran 1.5 s"),
    ],
)
def test_what_ended_it_is_told(
    fields: dict[str, Any], out_of_memory: bool, error: type[Exception], message: str
) -> None:
    given = answer(**fields)
    with pytest.raises(error, match=message):
        raise_verdict(given, exec_result(given), "a", ["ls", "-l"], out_of_memory=out_of_memory)


@pytest.mark.parametrize(("code", "out_of_memory"), [(0, True), (1, False), (137, False)])
def test_a_command_that_ended_by_itself_is_no_error(code: int, out_of_memory: bool) -> None:
    given = answer(exit_code=code)
    raise_verdict(given, exec_result(given), "a", ["ls"], out_of_memory=out_of_memory)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"error": "spawn", "errno": errno.ENOENT, "message": "No such file"}, SpawnFailed, "cannot start ls: No such"),
        ({"error": "spawn", "errno": errno.EAGAIN, "message": "x"}, SpawnFailed, "no processes left"),
        ({"error": "missing", "message": "x"}, FileNotFoundError, "ls"),
        ({"error": "file", "message": "No space left"}, SandboxError, "action a: ls: No space left"),
    ],
)
def test_refusals_are_typed(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        raise_refusal(Answer(fields, b""), "a", "ls")


def test_long_commands_and_outputs_are_shortened() -> None:
    given = answer(b"x" * 100_000, verdict="timed_out", stdout=100_000)
    with pytest.raises(ActionTimeout) as caught:
        raise_verdict(given, exec_result(given), "a", ["echo", "y" * 10_000], out_of_memory=False)
    assert len(str(caught.value)) < 3000
