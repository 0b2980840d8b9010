"""What can make sandboxes, and the choice of the best one that works here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.errors import ConfigurationError
from workers.bubblewrap_sandbox import BubblewrapBackend
from workers.docker_sandbox import DockerBackend
from workers.live_sandbox import LiveSandbox
from workers.local_sandbox import LocalBackend
from workers.sandbox_folder import SandboxRecord

BackendName = Literal["auto", "docker", "bubblewrap", "local"]


class SandboxBackend(Protocol):
    """Makes sandboxes. Thread safe."""

    name: str

    def create(self, order: OpenTrajectory, folder: Path) -> LiveSandbox:
        """Make a sandbox and wait until its agent answers; it is idle then.

        Args:
            order: what the trajectory asked for.
            folder: its own folder, not there yet; the last part is its lease.

        Raises:
            SandboxError: it cannot be made; nothing is left of the attempt.
        """

    def adopt(self, record: SandboxRecord, folder: Path) -> LiveSandbox | None:
        """Take over a sandbox that an earlier process of this node made, and leave it idle.

        Args:
            record: what that process wrote down.
            folder: its folder.

        Returns:
            None if it did not outlive that process, or not with its files; the next sweep removes what is left.
        """

    def sweep(self, folders: list[Path], live: set[str]) -> list[str]:
        """Remove what is left of sandboxes of an earlier process.

        Args:
            folders: their folders, as far as there are any.
            live: leases that must stay.

        Returns:
            The leases that were removed.
        """

    def prefetch(self, images: Sequence[str]) -> list[str]:
        """Get images that are missing; return those that could not be had."""

    def close(self) -> None:
        """Forget connections. Idempotent."""


def choose_backend(name: BackendName, *, node: str, owner: str, state_dir: Path, unsafe_local: bool) -> SandboxBackend:
    """Return the named backend, or the first that works of Docker, bubblewrap and (if allowed) local.

    Args:
        name: which, or "auto".
        node: the node, for labels and messages.
        owner: the deployment, for labels.
        state_dir: where the agent's file and its kin are put.
        unsafe_local: allow commands without any isolation.

    Raises:
        ConfigurationError: it does not work here; the message says what to do for each.
    """
    makers: dict[str, Callable[[], SandboxBackend]] = {
        "docker": lambda: DockerBackend(node=node, owner=owner, state_dir=state_dir),
        "bubblewrap": lambda: BubblewrapBackend(node=node, state_dir=state_dir),
        "local": lambda: LocalBackend(node=node, state_dir=state_dir, unsafe_local=unsafe_local),
    }
    if name != "auto":
        if name not in makers:
            raise ConfigurationError(f"unknown sandbox backend {name!r}: use auto, {', '.join(makers)}")
        return makers[name]()
    reasons = []
    for candidate, make in makers.items():
        try:
            return make()
        except ConfigurationError as error:
            reasons.append(f"{candidate}: {error}")
    raise ConfigurationError("no way to make sandboxes works here. " + "; ".join(reasons))
