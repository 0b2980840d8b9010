"""A sandbox whose size is only remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tangram_tasks.action import Qos
from tangram_tasks.errors import SandboxError
from workers.live_sandbox import LiveSandbox
from workers.sandbox_lease import SandboxLease


@dataclass
class FakeControl:
    """A CpuControl that remembers.

    Args:
        size: cores and CPUs, or None when idle.
        qos: the class it weighs as.
        drifted: settings that somebody else is to have changed.
        broken: whether the next size is refused.
        on_idle: called when it becomes idle.
        on_reclaim: called while memory is taken back.
        looks: how often somebody looked for drift.
        reclaims: how often memory was taken back.
        reclaims_cut: how often that was to stop halfway.
    """

    size: tuple[float, tuple[int, ...]] | None = None
    qos: Qos = "ls"
    drifted: int = 0
    broken: bool = False
    on_idle: Callable[[], None] = lambda: None
    on_reclaim: Callable[[], None] = lambda: None
    looks: int = 0
    reclaims: int = 0
    reclaims_cut: int = 0

    def state(self) -> tuple[float, tuple[int, ...], Qos]:
        """Return what it was given last; nothing when idle."""
        return (*(self.size or (0.0, ())), self.qos)

    def give(self, cores: float, cpus: Sequence[int]) -> None:
        if self.broken:
            raise SandboxError("the sandbox may be gone")
        self.size = (cores, tuple(cpus))

    def idle(self) -> None:
        self.size = None
        self.on_idle()

    def weigh(self, qos: Qos) -> None:
        self.qos = qos

    def reassert(self) -> int:
        self.looks += 1
        found, self.drifted = self.drifted, 0
        return found

    def reclaim(self, go_on: Callable[[], bool]) -> None:
        self.reclaims += 1
        self.on_reclaim()
        self.reclaims_cut += not go_on()

    def oom_kills(self) -> int:
        return 0


class FakeClient:
    """The connection to an agent that is never asked."""

    def close(self) -> None:
        pass


def fake_sandbox(
    control: FakeControl, trajectory: str = "t", connect: Callable[[str], None] = lambda network: None
) -> LiveSandbox:
    return LiveSandbox(
        trajectory=trajectory,
        lease=f"sandbox-{trajectory}",
        env={},
        client=cast(Any, FakeClient()),
        control=control,
        connect=connect,
        dispose=lambda: None,
    )


def fake_lease(sandbox: LiveSandbox, action: str, max_units: int = 4) -> SandboxLease:
    return SandboxLease(sandbox, action=action, units=1, max_units=max_units, deadline=float("inf"))
