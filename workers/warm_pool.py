"""Sandboxes that are ready before anybody asks for them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from tangram_tasks.errors import SandboxError
from tangram_tasks.wire import OpenTrajectory
from workers import isolation
from workers.live_sandbox import LiveSandbox
from workers.sandbox_policy import SandboxPolicy

logger = logging.getLogger(__name__)

WARM = "warm"  # whose sandbox it is until it is claimed
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0  # s after a failure, doubling


class WarmPool:
    """Keeps the target of each image; an image that fails is left alone for longer and longer. Thread safe.

    Args:
        policy: the targets.
        make: makes a sandbox; raises SandboxError.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        policy: SandboxPolicy,
        make: Callable[[OpenTrajectory], LiveSandbox],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy, self._make, self._clock = policy, make, clock
        self._lock = threading.Lock()
        self._ready: dict[str, list[LiveSandbox]] = {image: [] for image in policy.warm}
        self._not_before: dict[str, float] = {}
        self._pause: dict[str, float] = {}
        self._closed = False
        self.counters = Counter[str]()

    @property
    def ready(self) -> int:
        """How many wait to be claimed."""
        return sum(map(len, self._ready.values()))

    def claim(self, order: OpenTrajectory) -> LiveSandbox | None:
        """Return a ready sandbox that is just what the order asks for, or None. It is the caller's then."""
        if not self._serves(order):
            return None
        with self._lock:
            ready = self._ready[order.image]
            self.counters["warm_claims" if ready else "warm_misses"] += 1
            return ready.pop() if ready else None

    def refill(self, go_on: Callable[[], bool]) -> None:
        """Make what is missing, one by one, as long as `go_on` says so."""
        for image, target in self._policy.warm.items():
            while len(self._ready[image]) < target and self._may_try(image) and go_on():
                self._add(image)

    def close(self) -> list[LiveSandbox]:
        """Make no more; return those that wait, for removal. Idempotent."""
        with self._lock:
            self._closed = True
            left = [sandbox for ready in self._ready.values() for sandbox in ready]
            self._ready = {image: [] for image in self._ready}
        return left

    def _serves(self, order: OpenTrajectory) -> bool:
        plain = order.network == "none" and not order.mounts and order.user is None and order.fork_of is None
        return plain and order.image in self._ready and order.memory == self._policy.warm_memory_mib

    def _may_try(self, image: str) -> bool:
        return not self._closed and self._clock() >= self._not_before.get(image, 0.0)

    def _add(self, image: str) -> None:
        memory = self._policy.warm_memory_mib
        try:
            sandbox = self._make(
                OpenTrajectory(trajectory=WARM, image=image, memory=memory, expires_at=isolation.NEVER)
            )
        except SandboxError as error:
            pause = self._pause[image] = min(_LONGEST_PAUSE, 2 * self._pause.get(image, _FIRST_PAUSE / 2))
            self._not_before[image] = self._clock() + pause
            self.counters["warm_failures"] += 1
            logger.warning("no warm sandbox of %s, tried again in %g s: %s", image, pause, error)
            return
        self._pause.pop(image, None)
        with self._lock:
            if not self._closed:
                self._ready[image].append(sandbox)
                return
        sandbox.remove()
