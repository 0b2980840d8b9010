"""Sandboxes for actions without a trajectory: one each, handed on only if nothing of the last action is left."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.errors import SandboxError
from workers import isolation
from workers.live_sandbox import LiveSandbox

logger = logging.getLogger(__name__)

STATELESS = "stateless"
IDLE_TIME = 60.0  # s after which a sandbox that nobody takes is removed


def purge(sandbox: LiveSandbox) -> str:
    """Kill and delete everything of the last action; return what is left of it."""
    try:
        with sandbox.boosted():
            answer = sandbox.client.ask({"op": "purge", "path": ""})
        if "error" in answer.fields:
            return str(answer.fields.get("message"))
        left: list[str] = json.loads(answer.body)
    except (SandboxError, ValueError) as error:
        return str(error)
    return ", ".join(left)


class StatelessPool:
    """Lends sandboxes. Thread safe.

    Args:
        make: makes a sandbox; raises SandboxError.
        dispose: removes one; does not raise.
        keep: how many stay for the next actions.
        clean: cleans one, and returns what is left of the last action.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        make: Callable[[OpenTrajectory], LiveSandbox],
        dispose: Callable[[LiveSandbox], None],
        keep: int,
        clean: Callable[[LiveSandbox], str] = purge,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make, self._dispose, self._keep = make, dispose, keep
        self._clean, self._clock = clean, clock
        self._lock = threading.Lock()
        self._idle: list[tuple[tuple[str, int], float, LiveSandbox]] = []
        self._closed = False
        self.counters = Counter[str]()

    def take(self, image: str, memory: int) -> LiveSandbox:
        """Return a clean sandbox of this image and size. Raises SandboxError if it cannot be made."""
        with self._lock:
            for row in reversed(self._idle):
                if row[0] == (image, memory):
                    self._idle.remove(row)
                    self.counters["stateless_reused"] += 1
                    return row[2]
        return self._make(OpenTrajectory(trajectory=STATELESS, image=image, memory=memory, expires_at=isolation.NEVER))

    def give_back(self, sandbox: LiveSandbox, image: str, memory: int) -> None:
        """Clean a sandbox for the next action, or remove it."""
        left = self._clean(sandbox)
        if left:
            logger.info("a stateless sandbox of %s is replaced: %s", image, left)
            self.counters["stateless_replaced"] += 1
        with self._lock:
            kept = not left and not self._closed and len(self._idle) < self._keep
            if kept:
                self._idle.append(((image, memory), self._clock(), sandbox))
        if not kept:
            self._dispose(sandbox)

    def expire(self) -> None:
        """Remove those that nobody has taken for a minute."""
        with self._lock:
            old = [row for row in self._idle if self._clock() - row[1] > IDLE_TIME]
            self._idle = [row for row in self._idle if row not in old]
        for _, _, sandbox in old:
            self._dispose(sandbox)

    def close(self) -> list[LiveSandbox]:
        """Keep no more; return those that wait, for removal. Idempotent."""
        with self._lock:
            self._closed = True
            left, self._idle = [sandbox for _, _, sandbox in self._idle], []
        return left
