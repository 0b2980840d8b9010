"""The processes of the sandbox, for people and agents."""

from __future__ import annotations

import json
import os
import time

from workers.agent import process_table
from workers.agent.privileges import acting_as

_LONGEST = 1000  # characters of a command line


def list_processes(uid: int) -> bytes:
    """Return a JSON list of whatever runs below the agent: pid, command, started, cpu_seconds, session, action."""
    now, ticks = time.time(), process_table.now()
    rows = []
    with acting_as(uid):
        for found in process_table.descendants(os.getpid()):
            _, session, action = (process_table.tag_of(found.pid) + "//").split("/")[:3]
            rows.append(
                {
                    "pid": found.pid,
                    "command": process_table.command_line(found.pid)[:_LONGEST],
                    "started": now - (ticks - found.born) / process_table.TICKS,
                    "cpu_seconds": found.cpu / process_table.TICKS,
                    "session": session,
                    "action": action,
                }
            )
    return json.dumps(rows).encode()
