"""What every sandbox gets and does not get, whatever makes it."""

from __future__ import annotations

SANDBOX_UID = 1000
WORK = "/work"
PIDS = 256
MIN_MEMORY_MIB = 32  # the agent alone needs 11
NEVER = 253402300799.0  # the last second of the year 9999: the end of what belongs to no trajectory
READY_TIME = 30.0  # s a new sandbox's agent may take to answer
DOORWAY = "/run/tangram"  # the folder inside in which the agent opens its socket
AGENT = "/run/tangram-agent.pyz"

#: Capabilities of the agent's root; commands run as another user and have none. It changes to that user and kills.
AGENT_CAPABILITIES = ("SETUID", "SETGID", "KILL")


def agent_command(python: str, sock: str, work: str, uid: int) -> list[str]:
    """Return the command line of the agent, isolated from the image's and the user's Python settings."""
    return [python, "-IS", AGENT, sock, work, str(uid)]


def work_mib(memory: int) -> int:
    """Return the size of the work folder: half the memory, since a tmpfs counts as memory."""
    return memory // 2


def tmp_mib(memory: int) -> int:
    """Return the size of /tmp: a quarter of the memory."""
    return memory // 4
