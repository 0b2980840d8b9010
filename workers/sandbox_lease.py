"""A sandbox for the length of one action: what the action's body gets."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tangram_tasks.errors import ActionCancelled, ActionTimeout, InvalidAction, SandboxError
from tangram_tasks.sandbox import ExecResult, Sandbox, SandboxProcess
from workers import sandbox_files
from workers.agent_client import FILE_TIME, Answer
from workers.cancellation import Cancellation
from workers.exec_outcome import command_text, exec_result, raise_refusal, raise_verdict
from workers.live_sandbox import LiveSandbox

OUTPUT_CAP = 1 << 20  # bytes kept of each stream
LONGEST = 7 * 86400.0  # s a command may take; sockets have no endless timeout
PATIENCE = 15.0  # s the agent may take beyond the command's own time; it kills within 3, on a starved core later
_SESSION = re.compile(r"[\w.:-]{1,64}", re.ASCII)


@dataclass(slots=True)
class SandboxUsage:
    """What an action used.

    Args:
        resize_s: seconds spent on sizing the sandbox, both ways.
        cpu_seconds: of its commands.
        peak_memory: bytes of the largest process.
        units_over_time: (seconds since its units were given, units from then on).
    """

    resize_s: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    units_over_time: list[tuple[float, int]] = field(default_factory=list)


class SandboxLease(Sandbox):
    """See `tangram_tasks.sandbox.Sandbox`.

    Args:
        sandbox: the trajectory's sandbox.
        action: the action's id.
        units: what it holds.
        max_units: what it could ever hold.
        cpu_unit: cores per unit.
        deadline: `time.monotonic()` value at which the action must be over.
    """

    def __init__(
        self,
        sandbox: LiveSandbox,
        *,
        action: str,
        units: int,
        max_units: int,
        deadline: float,
        cpu_unit: float = 1.0,
    ) -> None:
        self.sandbox, self.action = sandbox, action
        self.usage = SandboxUsage()
        self.units, self.max_units = units, max_units
        self._deadline, self._cpu_unit = deadline, cpu_unit
        self._cancellation = Cancellation()
        self._over = False
        self._given_at: float | None = None
        self._lock = threading.Lock()

    @property
    def cpus(self) -> int:
        """See Sandbox."""
        return cores(self.units, self._cpu_unit)

    @property
    def max_cpus(self) -> int:
        """See Sandbox."""
        return cores(self.max_units, self._cpu_unit)

    def exec(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes | str = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """See Sandbox. Out of memory means: something in the sandbox was killed for it, and the command failed."""
        _check_argv(argv)
        request = {"op": "exec", "argv": list(argv), "cwd": cwd or "", "env": {**self._env(), **(env or {})}}
        return self._run(request, stdin, argv, timeout)

    def bash(
        self, command: str, *, session: str = "main", timeout: float | None = None, cwd: str | None = None
    ) -> ExecResult:
        """See Sandbox."""
        if "\0" in command:
            raise InvalidAction(f"a bash command must be a text without NUL, not {command!r}")
        if not _SESSION.fullmatch(session):
            raise InvalidAction(f"a session's name has 1 to 64 letters, digits or . _ : -, not {session!r}")
        request = {"op": "bash", "session": session, "cwd": cwd or "", "env": self._env()}
        return self._run(request, command, ["bash", "-c", command], timeout)

    def processes(self) -> list[SandboxProcess]:
        """See Sandbox."""
        answer = self._ask_files({"op": "processes", "path": "its processes"}, b"")
        return [SandboxProcess(**row) for row in json.loads(answer.body)]

    def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """See Sandbox."""
        if offset < 0 or (length is not None and length < 0):
            raise InvalidAction(f"offset and length count bytes from 0, not {offset} and {length}")
        return sandbox_files.read_file(self._ask_files, path, offset=offset, length=length)

    def write_file(self, path: str, data: bytes | str, *, append: bool = False) -> None:
        """See Sandbox."""
        sandbox_files.write_file(self._ask_files, path, data, append=append)

    def resized(self, units: int) -> None:
        """Note what the action holds from now on; the first time, when its units are given."""
        now = time.monotonic()
        self._given_at = self._given_at or now
        self.units = units
        self.usage.units_over_time.append((round(now - self._given_at, 4), units))

    def cancel(self) -> None:
        """Kill what the action runs, and let it run nothing more. Idempotent."""
        self._cancellation.cancel()

    def finish(self) -> None:
        """End the lease: a thread that outlives the action's body must not go on using the sandbox."""
        self._over = True
        self._cancellation.cancel()

    def _env(self) -> dict[str, str]:
        """Whole cores are told by the cpuset; parts of one are not."""
        told = {} if self._cpu_unit == 1 else {"OMP_NUM_THREADS": str(self.cpus)}
        return {**told, **self.sandbox.env}

    def _run(
        self, request: Mapping[str, Any], data: bytes | str, argv: Sequence[str], timeout: float | None
    ) -> ExecResult:
        if timeout is not None and not timeout > 0:
            raise InvalidAction(f"a command's timeout must be more than 0 seconds, not {timeout!r}")
        what = command_text(argv)
        left = self._time_left(what)
        limit = left if timeout is None else min(left, timeout)
        header = {**request, "action": self.action, "timeout": limit, "cap": OUTPUT_CAP}
        kills = self.sandbox.control.oom_kills()
        answer = self._ask(header, data.encode() if isinstance(data, str) else data, limit + PATIENCE)
        raise_refusal(answer, self.action, what)
        result = exec_result(answer)
        with self._lock:
            self.usage.cpu_seconds += result.cpu_seconds
            self.usage.peak_memory = max(self.usage.peak_memory, result.peak_memory)
        raise_verdict(answer, result, self.action, argv, out_of_memory=self.sandbox.control.oom_kills() > kills)
        return result

    def _ask_files(self, header: Mapping[str, Any], body: bytes | memoryview) -> Answer:
        left = self._time_left(f"{header['op']} {header['path']}")
        answer = self._ask(header, body, min(left, FILE_TIME))
        raise_refusal(answer, self.action, header["path"])
        return answer

    def _ask(self, header: Mapping[str, Any], body: bytes | memoryview, timeout: float) -> Answer:
        try:
            return self.sandbox.client.ask(header, body, timeout=timeout, cancellation=self._cancellation)
        except SandboxError:
            if self._cancellation.wanted:
                raise ActionCancelled(f"action {self.action} was cancelled") from None
            raise

    def _time_left(self, what: str) -> float:
        if self._over:
            raise SandboxError(f"action {self.action} is over: {what} came too late")
        if self._cancellation.wanted:
            raise ActionCancelled(f"action {self.action} was cancelled before {what}")
        left = min(self._deadline - time.monotonic(), LONGEST)
        if left <= 0:
            raise ActionTimeout(f"action {self.action} had used up its time before {what}")
        return left


def cores(units: int, cpu_unit: float) -> int:
    """Return how many cores so many units are for who starts workers: rounded up, at least 1."""
    return max(1, math.ceil(units * cpu_unit - 1e-9))


def _check_argv(argv: Sequence[str]) -> None:
    if isinstance(argv, str) or not argv or not all(isinstance(part, str) for part in argv) or "\0" in "".join(argv):
        raise InvalidAction(f"argv must be a list of texts without NUL, such as ['bash', '-c', 'ls'], not {argv!r}")
