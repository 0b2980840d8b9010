"""Sandboxes that are ready before anybody asks for them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.errors import ConfigurationError, SandboxError
from workers import isolation
from workers.live_sandbox import LiveSandbox

logger = logging.getLogger(__name__)

WARM = "warm"  # whose sandbox it is until it is claimed
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0  # s after a failure, doubling


Kind = tuple[str, int]  # image, and memory in MiB


class WarmPool:
    """Keeps the target of each kind; one that fails is left alone for longer and longer. Thread safe.

    Args:
        targets: kind to how many are kept.
        make: makes a sandbox; raises SandboxError.
        dispose: removes one; does not raise.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        targets: Mapping[Kind, int],
        make: Callable[[OpenTrajectory], LiveSandbox],
        dispose: Callable[[LiveSandbox], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._targets, self._make, self._dispose, self._clock = dict(targets), make, dispose, clock
        self._lock = threading.Lock()
        self._ready: defaultdict[Kind, list[LiveSandbox]] = defaultdict(list)
        self._not_before: dict[Kind, float] = {}
        self._pause: dict[Kind, float] = {}
        self._closed = False
        self.counters = Counter[str]()

    @property
    def ready(self) -> int:
        """How many wait to be claimed."""
        return sum(map(len, list(self._ready.values())))

    @property
    def reserved_mib(self) -> int:
        """MiB that the targets hold, and that the node therefore does not offer."""
        return _mib(self._targets)

    def aim(self, kind: Kind, count: int, most: int) -> list[LiveSandbox]:
        """Keep so many of a kind from now on; return those that are too many, for removal.

        Raises:
            ConfigurationError: all targets would take `most` MiB or more.
        """
        with self._lock:
            wanted = {**self._targets, kind: count}
            if _mib(wanted) >= most:
                raise ConfigurationError(f"warm: {_mib(wanted)} MiB for warm sandboxes is all that the node has")
            self._targets = wanted
            ready = self._ready[kind]
            surplus, self._ready[kind] = ready[count:], ready[:count]
            return surplus

    def claim(self, order: OpenTrajectory) -> LiveSandbox | None:
        """Return a ready sandbox that is just what the order asks for, or None. It is the caller's then."""
        kind = (order.image, order.memory)
        if not _is_plain(order) or not self._targets.get(kind):
            return None
        with self._lock:
            ready = self._ready[kind]
            self.counters["warm_claims" if ready else "warm_misses"] += 1
            return ready.pop() if ready else None

    def refill(self, go_on: Callable[[], bool]) -> None:
        """Make what is missing, one by one, as long as `go_on` says so."""
        for kind in list(self._targets):
            while len(self._ready[kind]) < self._targets[kind] and self._may_try(kind) and go_on():
                self._add(kind)

    def close(self) -> list[LiveSandbox]:
        """Make no more; return those that wait, for removal. Idempotent."""
        with self._lock:
            self._closed = True
            left = [sandbox for ready in self._ready.values() for sandbox in ready]
            self._ready.clear()
        return left

    def _may_try(self, kind: Kind) -> bool:
        return not self._closed and self._clock() >= self._not_before.get(kind, 0.0)

    def _add(self, kind: Kind) -> None:
        image, memory = kind
        try:
            sandbox = self._make(
                OpenTrajectory(trajectory=WARM, image=image, memory=memory, expires_at=isolation.NEVER)
            )
        except SandboxError as error:
            pause = self._pause[kind] = min(_LONGEST_PAUSE, 2 * self._pause.get(kind, _FIRST_PAUSE / 2))
            self._not_before[kind] = self._clock() + pause
            self.counters["warm_failures"] += 1
            logger.warning("no warm sandbox of %s, tried again in %g s: %s", image, pause, error)
            return
        self._pause.pop(kind, None)
        with self._lock:
            if not self._closed and len(self._ready[kind]) < self._targets[kind]:
                self._ready[kind].append(sandbox)
                return
        self._dispose(sandbox)


def _mib(targets: Mapping[Kind, int]) -> int:
    return sum(memory * count for (_, memory), count in targets.items())


def _is_plain(order: OpenTrajectory) -> bool:
    return order.network == "none" and not order.mounts and order.user is None and order.fork_of is None
