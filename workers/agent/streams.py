"""The output pipes of a process, read whenever something comes."""

from __future__ import annotations

import os
import selectors
import subprocess
from typing import IO, Any

from workers.agent.output import Output

CHUNK = 1 << 16
LAST_READS = 64  # chunks read at the end: more than a pipe holds


class Streams:
    """Standard output and standard error of a process.

    Args:
        popen: the process, with pipes for both.
        selector: watches them.
        cap: bytes kept of each.
    """

    def __init__(self, popen: subprocess.Popen[bytes], selector: selectors.BaseSelector, cap: int) -> None:
        self._selector = selector
        self._outputs: dict[IO[bytes], Output] = {}
        self._open: set[IO[bytes]] = set()
        for pipe in (popen.stdout, popen.stderr):
            if pipe:
                self._watch(pipe, cap)

    @property
    def silent(self) -> bool:
        """Whether nobody can write any more."""
        return not self._open

    def drain(self) -> None:
        """Read what is in the pipes."""
        for pipe in list(self._open):
            for _ in range(LAST_READS):
                if not self._collect(pipe):
                    break

    def close(self) -> None:
        """Read what is still in the pipes, and close them."""
        self.drain()
        for pipe in list(self._open):
            self._shut(pipe)

    def report(self) -> tuple[dict[str, Any], bytes]:
        """Return what was kept: fields of an answer's header, and its body."""
        kept = [output.kept() for output in self._outputs.values()]
        truncated = any(output.truncated for output in self._outputs.values())
        return {"truncated": truncated, "stdout": len(kept[0])}, b"".join(kept)

    def begin_anew(self, cap: int) -> None:
        """Forget what was read so far."""
        self._outputs = {pipe: Output(cap) for pipe in self._outputs}

    def _watch(self, pipe: IO[bytes], cap: int) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._outputs[pipe] = Output(cap)
        self._open.add(pipe)
        self._selector.register(pipe, selectors.EVENT_READ, lambda: self._collect(pipe))

    def _collect(self, pipe: IO[bytes]) -> bool:
        data = pipe.read(CHUNK)  # None while nothing is there
        if data == b"":
            self._shut(pipe)
        elif data:
            self._outputs[pipe].add(data)
        return bool(data)

    def _shut(self, pipe: IO[bytes]) -> None:
        self._open.discard(pipe)
        self._selector.unregister(pipe)
        pipe.close()
