"""Looks after a CPU node now and then: sizes that somebody else changed, networks still owed, books that are off."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable

from tangram_tasks.errors import SandboxError
from workers.cpu_grants import CpuGrants
from workers.live_sandbox import LiveSandbox
from workers.periodic import Periodic

logger = logging.getLogger(__name__)

PERIOD = 1.0  # s between two looks; each goes over the sandboxes in which actions run
IDLE_EVERY = 5  # looks; then over the others, too
AUDIT_EVERY = 10  # looks
_END_TIME = 10.0  # s that a look which waits for the engine gets to end


class Upkeep:
    """A thread that looks, from construction until `stop`.

    Args:
        node: the node's name.
        sandboxes: returns those that are up.
        grants: what actions hold.
    """

    def __init__(self, node: str, sandboxes: Callable[[], Iterable[LiveSandbox]], grants: CpuGrants) -> None:
        self._node, self._sandboxes, self._grants = node, sandboxes, grants
        self._looks = 0
        #: Settings that somebody else had changed and that were set again.
        self.drift_total = 0
        self._rounds = Periodic(
            f"upkeep of node {node}", "tangram-upkeep", self.look, period=PERIOD, patience=_END_TIME
        )

    def look(self) -> None:
        """Look once."""
        self._looks += 1
        everywhere = self._looks % IDLE_EVERY == 0
        for sandbox in self._sandboxes():
            if (everywhere or sandbox.busy) and (drifted := sandbox.reassert()):
                self.drift_total += drifted
                logger.warning(
                    "node %s: somebody else had changed %d settings of the sandbox of trajectory %s; set again",
                    self._node,
                    drifted,
                    sandbox.trajectory,
                )
            if everywhere:
                with contextlib.suppress(SandboxError):  # it was said when it failed first
                    sandbox.settle_egress()
        if self._looks % AUDIT_EVERY == 0:
            self._grants.audit()

    def stop(self) -> None:
        """Look no more. Idempotent."""
        self._rounds.stop()
