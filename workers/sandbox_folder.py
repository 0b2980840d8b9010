"""A sandbox's folder on the node, and the way in to its agent."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.errors import SandboxError
from workers.agent_client import AgentClient
from workers.isolation import READY_TIME

SOCKET = "agent.sock"
_RECORD = "sandbox.json"
_TRIES_PER_LOOK = 50  # asking the engine costs more than looking for a socket


class SandboxRecord(BaseModel):
    """What a node writes down of a sandbox.

    Args:
        order: what it was made for; its `expires_at` ends the sandbox even if nobody can say so.
        stamp: tells this life of the sandbox from a later one under the same id.
    """

    model_config = ConfigDict(frozen=True)

    order: OpenTrajectory
    stamp: str


class SandboxFolder:
    """Private to the worker; only its `in` folder is visible inside the sandbox.

    Args:
        path: the folder; its last part is the sandbox's lease.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.doorway = path / "in"

    def create(self) -> None:
        """Make it. Raises OSError."""
        self.path.mkdir(mode=0o700, parents=True)
        self.doorway.mkdir()
        self.doorway.chmod(0o777)  # the agent may be another user, without power over permissions

    def admit(self, name: str, died: Callable[[], str]) -> AgentClient:
        """Wait for the agent, and move its socket out of the commands' reach.

        Args:
            name: the sandbox, for messages.
            died: returns why the sandbox is dead, or an empty string; asked now and then.

        Raises:
            SandboxError: it died, or did not answer in time.
        """
        give_up = time.monotonic() + READY_TIME
        _wait(lambda: (self.doorway / SOCKET).exists(), name, died, give_up)
        (self.doorway / SOCKET).rename(self.path / SOCKET)
        self.doorway.chmod(0o700)
        client = self.client(name)
        try:
            _wait(lambda: client.answers(patience=1.0), name, died, give_up)
        except SandboxError:
            client.close()
            raise
        return client

    def client(self, name: str) -> AgentClient:
        """Return the way to an agent that was admitted before. Raises OSError."""
        return AgentClient(self.path / SOCKET, name)

    def remember(self, order: OpenTrajectory, stamp: str) -> None:
        """Write down whose sandbox it is, for the next process of the node. Raises OSError."""
        record = SandboxRecord(order=order, stamp=stamp)
        draft = self.path / f"{_RECORD}.new"
        draft.write_text(record.model_dump_json(), encoding="utf-8")
        draft.replace(self.path / _RECORD)

    def record(self) -> SandboxRecord | None:
        """Return what was written down; None if nothing was, or nothing that can be read."""
        try:
            return SandboxRecord.model_validate_json((self.path / _RECORD).read_bytes())
        except (OSError, ValidationError):
            return None

    def remove(self) -> None:
        """Remove it. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)


def sandbox_name(trajectory: str, node: str) -> str:
    """Return what a sandbox is called in messages."""
    return f"sandbox of trajectory {trajectory} on {node}"


def _wait(ready: Callable[[], bool], name: str, died: Callable[[], str], give_up: float) -> None:
    tries = 0
    while not ready():
        tries += 1
        reason = died() if tries % _TRIES_PER_LOOK == 0 else ""
        if reason or time.monotonic() > give_up:
            raise SandboxError(f"{name} did not start: {reason or f'its agent is silent after {READY_TIME:g} s'}")
        time.sleep(0.004)
