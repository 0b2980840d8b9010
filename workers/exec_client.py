"""Stands in for the agent where an image has no python3: everything goes through `docker exec`, 20 times slower.

What it cannot do: CPU seconds and peak memory of a command, copying a sandbox, cleaning it for a stranger.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tangram_tasks.errors import SandboxError
from workers import isolation
from workers.agent.frames import MAX_BODY
from workers.agent_client import FILE_TIME, Answer
from workers.cancellation import Cancellation
from workers.cgroups import Cgroup
from workers.docker_engine import engine_errors, is_running
from workers.engine_exec import Ended, EngineExec

if TYPE_CHECKING:
    from docker.models.containers import Container

#: What keeps such a container alive; it ignores what its commands send to process 1.
KEEP_ALIVE = ("sleep", "infinity")
_READ = (
    'test -e "$1" || exit 66; test -f "$1" || { echo not a regular file >&2; exit 1; }; '
    'stat -c "%s %i" -- "$1" && tail -c "+$2" -- "$1" | head -c "$3"'
)
_WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
_APPEND = _WRITE.replace("cat >", "cat >>")
_MISSING = 66
_NOT_STARTED = (126, 127)
_REFUSED = b"OCI runtime exec failed"


class ExecClient:
    """Answers an agent's requests. Thread safe.

    Args:
        container: the sandbox.
        group: its control group.
        user: whom commands run as.
        name: the sandbox, for messages.
    """

    def __init__(self, container: Container, group: Cgroup, user: int, name: str) -> None:
        self._container, self._name = container, name
        self._exec = EngineExec(container, group, user)

    def close(self) -> None:
        """See AgentClient; there is nothing to forget."""

    def answers(self, patience: float) -> bool:
        """Return whether the container runs."""
        try:
            return is_running(self._container)
        except SandboxError:
            return False

    def ask(
        self,
        header: Mapping[str, Any],
        body: bytes | memoryview = b"",
        *,
        timeout: float = FILE_TIME,
        cancellation: Cancellation | None = None,
    ) -> Answer:
        """See AgentClient.ask. Raises SandboxError if the container or the engine is gone."""
        wish = cancellation or Cancellation()
        gone: tuple[type[Exception], ...] = (*engine_errors(), OSError)
        try:
            match header["op"]:
                case "exec":
                    return self._command(header["argv"], header, bytes(body), wish)
                case "bash":  # a shell for each command: only the agent can keep one
                    answer = self._command(["bash", "-c", bytes(body).decode()], header, b"", wish)
                    return Answer({**answer.fields, "restarted": True}, answer.body)
                case "read":
                    return self._read(header, timeout, wish)
                case "write":
                    return self._write(header, bytes(body), timeout, wish)
                case "ping":
                    return Answer({}, b"")
        except gone as error:
            raise SandboxError(f"{self._name} is gone, or its engine: {error}") from None
        return Answer({"error": "request", "message": f"{header['op']} needs an image with a python3"}, b"")

    def _command(self, argv: Sequence[str], header: Mapping[str, Any], stdin: bytes, wish: Cancellation) -> Answer:
        ended = self._run(argv, header, stdin, header["timeout"], header["cap"], wish)
        if ended.exit_code in _NOT_STARTED and ended.stdout.startswith(_REFUSED):
            message = ended.stdout.decode(errors="replace").strip()
            return Answer({"error": "spawn", "errno": errno.ENOENT, "message": message}, b"")
        fields = {
            "exit_code": ended.exit_code,
            "verdict": ended.verdict,
            "duration": ended.duration,
            "cpu_seconds": 0.0,
            "peak_memory": 0,
            "truncated": ended.truncated,
            "stdout": len(ended.stdout),
        }
        return Answer(fields, ended.stdout + ended.stderr)

    def _read(self, header: Mapping[str, Any], timeout: float, wish: Cancellation) -> Answer:
        path, length = header["path"], min(int(header["length"]), MAX_BODY)
        command = ["sh", "-c", _READ, "sh", path, str(int(header["offset"]) + 1), str(length)]
        ended = self._run(command, {}, b"", timeout, 2 * MAX_BODY, wish)
        if ended.exit_code == _MISSING:
            return Answer({"error": "missing", "message": f"no such file: {path}"}, b"")
        about, _, piece = ended.stdout.partition(b"\n")
        answer = _file_answer(ended, piece)
        if "error" not in answer.fields:
            size, identity = map(int, about.split())
            answer = Answer({"size": size, "identity": identity}, piece)
        return answer

    def _write(self, header: Mapping[str, Any], body: bytes, timeout: float, wish: Cancellation) -> Answer:
        script = _APPEND if header.get("append") else _WRITE
        stdin, script = (body, script) if body else (b"", script.replace("cat >", ": >"))
        return _file_answer(self._run(["sh", "-c", script, "sh", header["path"]], {}, stdin, timeout, 4096, wish), b"")

    def _run(
        self, argv: Sequence[str], header: Mapping[str, Any], stdin: bytes, timeout: float, cap: int, wish: Cancellation
    ) -> Ended:
        cwd = posixpath.join(isolation.WORK, header.get("cwd", ""))
        env = header.get("env", {})
        return self._exec.run(argv, cwd=cwd, env=env, stdin=stdin, timeout=timeout, cap=cap, cancellation=wish)


def _file_answer(ended: Ended, body: bytes) -> Answer:
    if ended.verdict or ended.exit_code:
        message = ended.verdict or ended.stderr.decode(errors="replace").strip() or f"exit code {ended.exit_code}"
        return Answer({"error": "file", "message": message}, b"")
    return Answer({}, body)
