"""`python3 -IS agent.pyz SOCKET WORK_FOLDER UID`; UID -1: commands run as the agent does."""

from __future__ import annotations

import os
import socket
import sys

from workers.agent.loop import Loop
from workers.agent.privileges import protect_agent


def main() -> None:
    """Listen and serve for ever."""
    path, work, uid = sys.argv[1], sys.argv[2], int(sys.argv[3])
    protect_agent(work, uid)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    os.chdir(os.path.dirname(path))  # a socket's path may have 107 bytes only
    listener.bind("starting")
    os.chmod("starting", 0o666)  # the worker may be another user; it moves the socket out of reach
    listener.listen(128)
    os.rename("starting", os.path.basename(path))  # only now: the worker takes it as soon as it sees it
    os.chdir("/")
    Loop(listener, work, uid).run()


if __name__ == "__main__":
    main()
