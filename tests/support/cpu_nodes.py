"""Trajectories on a CPU node, for tests."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from compose.image import BASE_IMAGE
from tangram_tasks.action import Qos
from tangram_tasks.control_messages import OpenTrajectory
from tests.waiting import wait_until
from workers.cgroups import Cgroup, find
from workers.cpu_node import CpuNode
from workers.sandbox_lease import SandboxLease

_numbers = itertools.count()
_marks = itertools.count(400_000 + os.getpid() * 1000)


@dataclass(frozen=True)
class Trajectory:
    """A trajectory whose sandbox is open."""

    id: str
    node: CpuNode

    def lease(
        self, units: int = 1, seconds: float = 30.0, action: str | None = None, qos: Qos = "ls"
    ) -> AbstractContextManager[SandboxLease]:
        return self.node.lease(
            trajectory=self.id,
            action=action or f"action-{next(_numbers)}",
            units=units,
            max_units=4,
            deadline=time.monotonic() + seconds,
            qos=qos,
        )


def order(trajectory: str, memory: int = 256, image: str = BASE_IMAGE) -> OpenTrajectory:
    return OpenTrajectory(
        trajectory=trajectory, image=image, memory=memory, expires_at=time.time() + 600, env={"FROM_ORDER": "1"}
    )


@contextlib.contextmanager
def trajectory_on(node: CpuNode, memory: int = 256) -> Iterator[Trajectory]:
    trajectory = Trajectory(f"trajectory-{next(_numbers)}", node)
    node.open(order(trajectory.id, memory))
    try:
        yield trajectory
    finally:
        node.close(trajectory.id)


def group_of(lease: SandboxLease) -> Cgroup:
    """Return the control group in which the commands of a sandbox run."""
    mark = str(next(_marks))
    lease.exec(["bash", "-c", f"setsid sleep {mark} >/dev/null 2>&1 &"])
    wait_until(lambda: bool(processes_with(mark)), "the sleep has started")
    return find(processes_with(mark)[0])


def processes_with(argument: str) -> list[int]:
    """Return the processes of this machine that have this word on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if argument.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found
