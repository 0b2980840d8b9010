"""SGLang's release and resume: `--enable-memory-saver --enable-weights-cpu-backup`.

A JSON body is required. The server asserts that it is idle before it releases, and dies on a resume of what it did
not release; it cannot be asked which of the two it is. So we remember it, on disk, together with which run of the
server it was.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tangram_tasks.errors import ServiceUnavailable
from workers.engines.connection import Connection
from workers.service import Away, Watch

#: Seconds between tries to flush the cache, which is refused while a request runs.
_FLUSH_PAUSE = 0.1


class SglangControl:
    """Implements `workers.engines.control.Control`.

    Args:
        connection: to the server.
        memo: file that remembers what was released, also when this process is killed.
    """

    needs = "an SGLang server with --enable-memory-saver and --enable-weights-cpu-backup"

    def __init__(self, connection: Connection, memo: Path) -> None:
        self._connection = connection
        self._memo = memo

    def asleep(self, watch: Watch) -> bool | None:
        """Return what was remembered of this run of the server; one that was started since serves."""
        released = self._remembered()
        return released is not None and released == self._run(watch)

    def release(self, watch: Watch) -> None:
        """Pause, flush until nothing runs, release."""
        post = self._connection.post
        run = self._run(watch)
        post("/pause_generation", watch, body={})
        self._flush(watch)
        post("/release_memory_occupation", watch, body={})
        self._remember(run)

    def resume(self, watch: Watch) -> None:
        """Resume, once, then let generation continue."""
        doubt = False
        try:
            self._connection.post("/resume_memory_occupation", watch, body={}, again=False)
        except Away:
            doubt = True
        self._connection.post("/continue_generation", watch, body={})
        if doubt:
            self._connection.ask("/health_generate", watch)  # it generates a token: then it had resumed
        self._forget()

    def _flush(self, watch: Watch) -> None:
        while True:
            try:
                self._connection.post("/flush_cache", watch, body={})
                return
            except Away:
                raise
            except ServiceUnavailable:
                watch.check()
                time.sleep(_FLUSH_PAUSE)

    def _run(self, watch: Watch) -> str:
        """Return what tells one run of the server from another: the seed that it draws at its start."""
        info: Any = self._connection.get("/get_server_info", watch)
        return str(info.get("random_seed")) if isinstance(info, dict) else ""

    def _remembered(self) -> str | None:
        try:
            run: str = json.loads(self._memo.read_text(encoding="utf-8"))["released"]
        except (FileNotFoundError, ValueError, KeyError):
            return None
        return run

    def _remember(self, run: str) -> None:
        self._memo.parent.mkdir(parents=True, exist_ok=True)
        draft = self._memo.with_suffix(".draft")
        draft.write_text(json.dumps({"released": run}), encoding="utf-8")
        draft.replace(self._memo)

    def _forget(self) -> None:
        self._memo.unlink(missing_ok=True)
