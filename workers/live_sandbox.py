"""A trajectory's sandbox over its whole life, and its size: the sum of what its running actions hold."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tangram_tasks.action import Qos
from tangram_tasks.egress import Egress
from tangram_tasks.errors import SandboxError
from workers.agent_client import Answer
from workers.cancellation import Cancellation
from workers.cpu_book import Share

LIGHT_CORES = 0.25  # of a sandbox in which only light actions run


class CpuControl(Protocol):
    """How a sandbox is sized and watched."""

    def give(self, cores: float, cpus: Sequence[int]) -> None:
        """Give the time of so many cores; and just these cores, unless empty. Raises SandboxError."""

    def idle(self) -> None:
        """Leave almost nothing. Raises SandboxError."""

    def reclaim(self, go_on: Callable[[], bool]) -> None:
        """Give back what memory the kernel can take: page cache, above all. It asks now and then whether to go on."""

    def weigh(self, qos: Qos) -> None:
        """Set what it counts for beside others on the same cores; "ls" before the first call. Raises SandboxError."""

    def reassert(self) -> int:
        """Set again what somebody else has changed; return how many settings were. Raises SandboxError."""

    def oom_kills(self) -> int:
        """How many processes the kernel has killed in it for lack of memory."""


class SandboxClient(Protocol):
    """How the worker speaks to a sandbox: to its agent, or to something that answers like one."""

    def ask(
        self,
        header: Mapping[str, Any],
        body: bytes | memoryview = b"",
        *,
        timeout: float = ...,
        cancellation: Cancellation | None = None,
    ) -> Answer:
        """See AgentClient.ask."""

    def close(self) -> None:
        """Forget the sandbox. Idempotent."""


class LiveSandbox:
    """A sandbox that is up. Thread safe.

    Args:
        trajectory: whose it is.
        lease: its own id.
        env: environment of every command.
        client: its agent.
        control: sizes it.
        connect: lets it have another network, and is out of the old one if it cannot; raises SandboxError.
        dispose: removes it for good; idempotent.
        stamp: tells this life of it from a later one; empty if it ends with the worker.
        agentless: it has no agent, since its image has no python3.
    """

    def __init__(
        self,
        *,
        trajectory: str,
        lease: str,
        env: Mapping[str, str],
        client: SandboxClient,
        control: CpuControl,
        connect: Callable[[str], None],
        dispose: Callable[[], None],
        stamp: str = "",
        agentless: bool = False,
    ) -> None:
        self.trajectory, self.lease, self.env, self.client = trajectory, lease, env, client
        self.control, self._connect, self._dispose = control, connect, dispose
        self.stamp, self.agentless = stamp, agentless
        self._lock = threading.Lock()
        self._shares: list[Share] = []
        self._boosts = 0
        self._idle_since: float | None = time.monotonic()
        self._qos: Qos = "ls"
        self._removed = False
        self._turn = 0
        self._owed: Egress | None = None  # a change that could not be made yet
        self._turn_lock = threading.Lock()  # a network takes 100 ms to change; sizes must not wait for it

    def assign(self, trajectory: str, env: Mapping[str, str], client: SandboxClient) -> None:
        """Hand a sandbox that nobody has used to a trajectory; `client` speaks of it by its new name."""
        self.client.close()
        self.trajectory, self.env, self.client = trajectory, {**self.env, **env}, client

    @contextlib.contextmanager
    def boosted(self) -> Iterator[None]:
        """Let the agent work at full speed for the length of the block, whatever actions hold. Raises SandboxError."""
        self._boost(1)
        try:
            yield
        finally:
            with contextlib.suppress(SandboxError):  # it went meanwhile
                self._boost(-1)

    @property
    def busy(self) -> bool:
        """Whether an action runs in it."""
        return bool(self._shares)

    def grow(self, share: Share, cpu_unit: float) -> None:
        """Add what an action was granted. Raises SandboxError."""
        with self._lock:
            self._shares.append(share)
            self._idle_since = None
            self._apply(cpu_unit)

    def exchange(self, old: Share, new: Share, cpu_unit: float) -> None:
        """Give a running action another share. Raises SandboxError; it has the old one then, as far as we know."""
        with self._lock:
            self._shares[self._shares.index(old)] = new
            try:
                self._apply(cpu_unit)
            except SandboxError:
                self._shares[self._shares.index(new)] = old
                raise

    def shrink(self, share: Share, cpu_unit: float) -> None:
        """Take it back; idle when nothing is left. Raises SandboxError."""
        with self._lock:
            self._shares.remove(share)
            self._idle_since = None if self._shares else time.monotonic()
            if not self._removed:
                self._apply(cpu_unit)

    def change_egress(self, egress: Egress) -> None:
        """Let it have this network, unless a later change came first. Returns at once if it has it already.

        Raises:
            SandboxError: that cannot be done; it is tried again at the next call, and by `settle_egress`.
        """
        with self._turn_lock:
            owed = max(egress, self._owed or egress, key=lambda one: one.turn)
            if owed.turn > self._turn:
                self._owed = owed
                self._connect(owed.network)
                self._turn, self._owed = owed.turn, None

    def settle_egress(self) -> None:
        """Make a change that failed: what runs here already must not wait for a next action. Raises SandboxError."""
        if (owed := self._owed) is not None and not self._removed:
            self.change_egress(owed)

    def pause(self, after: float) -> bool:
        """Give page cache back if no action has run for `after` s. Once per idle time; returns whether it did."""
        with self._lock:
            due = self._idle_since is not None and time.monotonic() - self._idle_since >= after
            if not due or self._removed:
                return False
            self._idle_since = None
        self.control.reclaim(lambda: not self.busy)
        return True

    def reassert(self) -> int:
        """Set its size again where somebody else changed it. Returns how many settings were; 0 once it is removed."""
        with self._lock:
            if self._removed:
                return 0
            with contextlib.suppress(SandboxError):  # it is on its way out; its next command says so
                return self.control.reassert()
            return 0

    def remove(self) -> None:
        """Remove it with everything that runs in it. Idempotent."""
        with self._lock:
            self._removed = True
            with contextlib.suppress(SandboxError):  # what runs in it needs time to die
                self.control.give(1.0, ())
        self._dispose()
        self.client.close()

    def _boost(self, by: int) -> None:
        with self._lock:
            self._boosts += by
            if self._removed or any(share.units for share in self._shares):
                return
            if self._boosts:
                self.control.give(1.0, ())
            else:
                self._apply(1.0)  # of which nobody holds any

    def _apply(self, cpu_unit: float) -> None:
        if not self._shares and self._boosts:
            return
        if not self._shares:
            self.control.idle()
            return
        qos: Qos = "ls" if any(share.qos == "ls" for share in self._shares) else "be"
        if qos != self._qos:
            self.control.weigh(qos)
            self._qos = qos
        heavy = [share for share in self._shares if share.units]
        cpus = sorted({cpu for share in heavy or self._shares for cpu in share.cpus})
        self.control.give(sum(share.units for share in heavy) * cpu_unit or LIGHT_CORES, cpus)
