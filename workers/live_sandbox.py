"""A trajectory's sandbox over its whole life, and its size: the sum of what its running actions hold."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tangram_tasks.errors import SandboxError
from workers.agent_client import AgentClient
from workers.cpu_book import Share


class CpuControl(Protocol):
    """How a sandbox is sized and watched."""

    def give(self, cores: float, cpus: Sequence[int]) -> None:
        """Give the time of so many cores; and just these cores, unless empty. Raises SandboxError."""

    def idle(self) -> None:
        """Leave almost nothing. Raises SandboxError."""

    def oom_kills(self) -> int:
        """How many processes the kernel has killed in it for lack of memory."""


class LiveSandbox:
    """A sandbox that is up. Thread safe.

    Args:
        trajectory: whose it is.
        lease: its own id.
        env: environment of every command.
        client: its agent.
        control: sizes it.
        dispose: removes it for good; idempotent.
    """

    def __init__(
        self,
        *,
        trajectory: str,
        lease: str,
        env: Mapping[str, str],
        client: AgentClient,
        control: CpuControl,
        dispose: Callable[[], None],
    ) -> None:
        self.trajectory, self.lease, self.env, self.client = trajectory, lease, env, client
        self.control, self._dispose = control, dispose
        self._lock = threading.Lock()
        self._shares: list[Share] = []
        self._removed = False

    def grow(self, share: Share, cpu_unit: float) -> None:
        """Add what an action was granted. Raises SandboxError."""
        with self._lock:
            self._shares.append(share)
            self._apply(cpu_unit)

    def shrink(self, share: Share, cpu_unit: float) -> None:
        """Take it back; idle when nothing is left. Raises SandboxError."""
        with self._lock:
            self._shares.remove(share)
            if not self._removed:
                self._apply(cpu_unit)

    def remove(self) -> None:
        """Remove it with everything that runs in it. Idempotent."""
        with self._lock:
            self._removed = True
            with contextlib.suppress(SandboxError):  # what runs in it needs time to die
                self.control.give(1.0, ())
        self._dispose()
        self.client.close()

    def _apply(self, cpu_unit: float) -> None:
        if self._shares:
            cpus = [cpu for share in self._shares for cpu in share.cpus]
            self.control.give(sum(share.units for share in self._shares) * cpu_unit, cpus)
        else:
            self.control.idle()
