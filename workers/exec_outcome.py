"""From what the agent said to what an action's body sees."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Sequence

from tangram_tasks.errors import ActionCancelled, ActionOutOfMemory, ActionTimeout, SandboxError, SpawnFailed
from tangram_tasks.sandbox import ExecResult
from workers.agent_client import Answer

_LAST_OUTPUT = 2000  # characters quoted in messages
_COMMAND = 200


def exec_result(answer: Answer) -> ExecResult:
    """Return the result of a command that ended by itself or was killed."""
    fields, split = answer.fields, answer.fields["stdout"]
    return ExecResult(
        exit_code=fields["exit_code"],
        stdout=answer.body[:split].decode(errors="replace"),
        stderr=answer.body[split:].decode(errors="replace"),
        truncated=fields["truncated"],
        duration=fields["duration"],
        cpu_seconds=fields["cpu_seconds"],
        peak_memory=fields["peak_memory"],
    )


def raise_refusal(answer: Answer, action: str, what: str) -> None:
    """Raise what the agent could not do.

    Args:
        answer: the agent's answer.
        action: the action's id.
        what: the command or the path.

    Raises:
        SpawnFailed: the command could not be started.
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
        message = "no processes left; everything that ran in the sandbox was killed, so that the next command can start"
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
    about = f"action {action}: {command_text(argv)}"
    verdict = answer.fields["verdict"]
    if verdict == "cancelled":
        raise ActionCancelled(f"{about} was cancelled after {result.duration:.1f} s and killed")
    if verdict == "timed_out":
        raise ActionTimeout(f"{about} ran {result.duration:.1f} s, its limit, and was killed; {_last(result)}")
    if out_of_memory and result.exit_code != 0:
        raise ActionOutOfMemory(f"{about} ran out of the sandbox's memory and was killed; {_last(result)}")


def command_text(argv: Sequence[str]) -> str:
    """Return the command as a person would type it, shortened."""
    text = shlex.join(argv)
    return text if len(text) <= _COMMAND else text[:_COMMAND] + " ..."


def _last(result: ExecResult) -> str:
    output = (result.stdout + result.stderr).strip()
    return f"last output: {output[-_LAST_OUTPUT:]}" if output else "it wrote nothing"
