"""No sandbox at all: the agent as a plain process of this host. For tests and toys, only when asked for by name.

Commands see the whole host with the worker's rights, and nothing limits their cores, memory or processes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tangram_tasks.action import Qos
from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.errors import ConfigurationError
from workers.agent.privileges import NO_USER
from workers.agent.process_table import descendants, variable
from workers.agent_archive import write_agent
from workers.live_sandbox import LiveSandbox
from workers.sandbox_folder import SOCKET, SandboxFolder, SandboxRecord, sandbox_name

logger = logging.getLogger(__name__)
_END_TIME = 10.0


class LocalBackend:
    """Runs commands on the host. See `workers.sandbox_backend.SandboxBackend`.

    Args:
        node: the node.
        state_dir: for the agent's file.
        unsafe_local: must be True.

    Raises:
        ConfigurationError: `unsafe_local` is not set.
    """

    name = "local"

    def __init__(self, *, node: str, state_dir: Path, unsafe_local: bool) -> None:
        if not unsafe_local:
            raise ConfigurationError("running commands without isolation needs TANGRAM_UNSAFE_LOCAL=1")
        logger.warning("node %s runs commands on this host WITHOUT ANY ISOLATION (unsafe_local)", node)
        self._node = node
        self._agent = write_agent(state_dir)

    def create(self, order: OpenTrajectory, folder: Path) -> LiveSandbox:
        """See SandboxBackend. The image, the network and the memory of the order are ignored."""
        where = SandboxFolder(folder)
        with contextlib.ExitStack() as undo:
            where.create()
            undo.callback(where.remove)
            process = self._start(where)
            undo.callback(_end, process)
            client = where.admit(
                sandbox_name(order.trajectory, self._node),
                lambda: "" if process.poll() is None else f"its agent ended with {process.returncode}",
            )
            undo.pop_all()

        def dispose() -> None:
            _end(process)
            where.remove()

        return LiveSandbox(
            trajectory=order.trajectory,
            lease=folder.name,
            env=order.env,
            client=client,
            control=Unlimited(),
            connect=lambda network: None,  # it has the host's, whatever is asked
            dispose=dispose,
        )

    def adopt(self, record: SandboxRecord, folder: Path) -> LiveSandbox | None:
        """See SandboxBackend. It died with its worker."""
        return None

    def sweep(self, folders: list[Path], live: set[str]) -> list[str]:
        """See SandboxBackend. Processes are known by their home folder."""
        left = [folder for folder in folders if folder.name not in live]
        homes = {str(_work(folder)) for folder in left}
        for name in os.listdir("/proc"):  # noqa: PTH208  # names, not paths
            if name.isdigit() and variable(int(name), "HOME") in homes:
                _kill(int(name))
        for folder in left:
            SandboxFolder(folder).remove()
        return sorted(folder.name for folder in left)

    def prefetch(self, images: Sequence[str]) -> list[str]:
        """See SandboxBackend. The host is the image."""
        return []

    def close(self) -> None:
        """See SandboxBackend."""

    def _start(self, where: SandboxFolder) -> subprocess.Popen[bytes]:
        work = _work(where.path)
        work.mkdir()
        # Not the worker's environment: it may hold the broker's password.
        env = {"PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}", "HOME": str(work)}
        return subprocess.Popen(
            [sys.executable, "-IS", str(self._agent), str(where.doorway / SOCKET), str(work), str(NO_USER)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=env,
            start_new_session=True,
        )


class Unlimited:
    """A CpuControl that controls nothing."""

    def give(self, cores: float, cpus: Sequence[int]) -> None:
        """See CpuControl."""

    def idle(self) -> None:
        """See CpuControl."""

    def reclaim(self, go_on: Callable[[], bool]) -> None:
        """See CpuControl."""

    def weigh(self, qos: Qos) -> None:
        """See CpuControl."""

    def reassert(self) -> int:
        """See CpuControl."""
        return 0

    def oom_kills(self) -> int:
        """See CpuControl."""
        return 0


def _work(folder: Path) -> Path:
    return folder / "work"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what the agent has below it before the agent: without a PID namespace it would live on."""
    give_up = time.monotonic() + _END_TIME
    while process.poll() is None and (left := descendants(process.pid)) and time.monotonic() < give_up:
        for found in left:
            _kill(found.pid)
        time.sleep(0.002)
    process.kill()
    process.wait(_END_TIME)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
