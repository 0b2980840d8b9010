"""A sandbox for the length of one action: what the action's body gets."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tangram_tasks.errors import ActionCancelled, ActionTimeout, InvalidAction, SandboxError
from tangram_tasks.sandbox import ExecResult, Sandbox
from workers.agent_client import FILE_TIME, Answer
from workers.cancellation import Cancellation
from workers.exec_outcome import command_text, exec_result, raise_refusal, raise_verdict
from workers.live_sandbox import LiveSandbox

OUTPUT_CAP = 1 << 20  # bytes kept of each stream
LONGEST = 7 * 86400.0  # s a command may take; sockets have no endless timeout
PATIENCE = 15.0  # s the agent may take beyond the command's own time; it kills within 3, on a starved core later


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
        deadline: `time.monotonic()` value at which the action must be over.
    """

    def __init__(self, sandbox: LiveSandbox, *, action: str, units: int, max_units: int, deadline: float) -> None:
        self.sandbox, self.action = sandbox, action
        self.usage = SandboxUsage()
        self._units, self._max_units, self._deadline = units, max_units, deadline
        self._cancellation = Cancellation()
        self._over = False
        self._given_at: float | None = None
        self._lock = threading.Lock()

    @property
    def cpus(self) -> int:
        """See Sandbox."""
        return self._units

    @property
    def max_cpus(self) -> int:
        """See Sandbox."""
        return self._max_units

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
        what = _checked(argv, timeout)
        left = self._time_left(what)
        limit = left if timeout is None else min(left, timeout)
        header = {
            "op": "exec",
            "argv": list(argv),
            "cwd": cwd or "",
            "env": {**self.sandbox.env, **(env or {})},
            "timeout": limit,
            "cap": OUTPUT_CAP,
        }
        kills = self.sandbox.control.oom_kills()
        answer = self._ask(header, stdin, limit + PATIENCE)
        raise_refusal(answer, self.action, what)
        result = exec_result(answer)
        with self._lock:
            self.usage.cpu_seconds += result.cpu_seconds
            self.usage.peak_memory = max(self.usage.peak_memory, result.peak_memory)
        raise_verdict(answer, result, self.action, argv, out_of_memory=self.sandbox.control.oom_kills() > kills)
        return result

    def read_file(self, path: str) -> bytes:
        """See Sandbox. At most 64 MiB; relative to the work folder."""
        left = self._time_left(f"read {path}")
        answer = self._ask({"op": "read", "path": path}, b"", min(left, FILE_TIME))
        raise_refusal(answer, self.action, path)
        return answer.body

    def write_file(self, path: str, data: bytes | str) -> None:
        """See Sandbox. At most 64 MiB; relative to the work folder."""
        left = self._time_left(f"write {path}")
        raise_refusal(self._ask({"op": "write", "path": path}, data, min(left, FILE_TIME)), self.action, path)

    def resized(self, units: int) -> None:
        """Note what the action holds from now on; the first time, when its units are given."""
        now = time.monotonic()
        self._given_at = self._given_at or now
        self._units = units
        self.usage.units_over_time.append((round(now - self._given_at, 4), units))

    def cancel(self) -> None:
        """Kill what the action runs, and let it run nothing more. Idempotent."""
        self._cancellation.cancel()

    def finish(self) -> None:
        """End the lease: a thread that outlives the action's body must not go on using the sandbox."""
        self._over = True
        self._cancellation.cancel()

    def _ask(self, header: dict[str, object], data: bytes | str, timeout: float) -> Answer:
        body = data.encode() if isinstance(data, str) else data
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


def _checked(argv: Sequence[str], timeout: float | None) -> str:
    if isinstance(argv, str) or not argv or not all(isinstance(part, str) for part in argv) or "\0" in "".join(argv):
        raise InvalidAction(f"argv must be a list of texts without NUL, such as ['bash', '-c', 'ls'], not {argv!r}")
    if timeout is not None and not timeout > 0:
        raise InvalidAction(f"a command's timeout must be more than 0 seconds, not {timeout!r}")
    return command_text(argv)
