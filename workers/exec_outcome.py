"""From what the agent said to what an action's body sees."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Sequence

from tangram_tasks.errors import (
    ActionCancelled,
    ActionOutOfMemory,
    ActionTimeout,
    NoProcessesLeft,
    SandboxError,
    SpawnFailed,
)
from tangram_tasks.sandbox import ExecResult
from workers.agent_client import Answer

_LAST_OUTPUT = 2000  # characters quoted in messages
_COMMAND = 200


def exec_result(answer: Answer) -> ExecResult:
    """Return the result of a command that ended by itself or was killed."""
    fields, split = answer.fields, answer.fields["stdout"]
    raw = answer.body[:split], answer.body[split:]
    return ExecResult(
        exit_code=fields["exit_code"],
        stdout=raw[0].decode(errors="replace"),
        stderr=raw[1].decode(errors="replace"),
        truncated=fields["truncated"],
        duration=fields["duration"],
        cpu_seconds=fields["cpu_seconds"],
        peak_memory=fields["peak_memory"],
        cwd=fields.get("cwd", ""),
        restarted=fields.get("restarted", False),
        raw=raw,
    )


def raise_refusal(answer: Answer, action: str, what: str) -> None:
    """Raise what the agent could not do.

    Args:
        answer: the agent's answer.
        action: the action's id.
        what: the command or the path.

    Raises:
        SpawnFailed, NoProcessesLeft: the command could not be started.
        FileNotFoundError: there is no such file.
        SandboxError: anything else.
    """
    error, message = answer.fields.get("error"), answer.fields.get("message", "")
    if error is None:
        return
    if error == "missing":
        raise FileNotFoundError(errno.ENOENT, f"no such file in the sandbox (action {action})", what)
    if error != "spawn":
        raise SandboxError(f"action {action}: {what}: {message}")
    if answer.fields.get("errno") == errno.EAGAIN:
        raise NoProcessesLeft(
            f"action {action}: cannot start {what}: no processes left; everything that ran in the sandbox was killed, "
            "so that the next command can start"
        )
    raise SpawnFailed(f"action {action}: cannot start {what}: {message}")


def raise_verdict(answer: Answer, result: ExecResult, action: str, argv: Sequence[str], *, out_of_memory: bool) -> None:
    """Raise if the command did not end by itself.

    Args:
        answer: the agent's answer.
        result: the same, decoded.
        action: the action's id.
        argv: the command.
        out_of_memory: the kernel killed something in the sandbox meanwhile.

    Raises:
        ActionTimeout, ActionCancelled, ActionOutOfMemory: the message ends with the last output.
    """
    error = _verdict(answer, result, f"action {action}: {command_text(argv)}", out_of_memory=out_of_memory)
    if error is not None:
        error.result = result
        raise error


def _verdict(
    answer: Answer, result: ExecResult, about: str, *, out_of_memory: bool
) -> ActionTimeout | ActionCancelled | ActionOutOfMemory | None:
    verdict = answer.fields["verdict"]
    lost = "; the session's variables and functions are lost" if result.restarted else ""
    if verdict and not answer.fields.get("begun", True):
        waited = f"{about} waited {answer.fields['waited']:.1f} s for another command of its session"
        return ActionTimeout(f"{waited}, its limit") if verdict == "timed_out" else ActionCancelled(f"{waited}")
    if verdict == "cancelled":
        return ActionCancelled(f"{about} was cancelled after {result.duration:.1f} s and killed{lost}; {_last(result)}")
    if verdict == "timed_out":
        return ActionTimeout(f"{about} ran {result.duration:.1f} s, its limit, and was killed{lost}; {_last(result)}")
    if out_of_memory and result.exit_code != 0:
        peak = f"its largest process had {result.peak_memory >> 20} MiB"
        return ActionOutOfMemory(
            f"{about} ran out of the sandbox's memory and was killed{lost}; {peak}; {_last(result)}"
        )
    return None


def command_text(argv: Sequence[str]) -> str:
    """Return the command as a person would type it, shortened."""
    text = shlex.join(argv)
    return text if len(text) <= _COMMAND else text[:_COMMAND] + " ..."


def _last(result: ExecResult) -> str:
    output = (result.stdout + result.stderr).strip()
    return f"last output: {output[-_LAST_OUTPUT:]}" if output else "it wrote nothing"
