"""Run a command that dies with its parent: `python child.py PARENT_PID COMMAND [ARGUMENT ...]`.

A standalone script (stdlib only, imports nothing of ours), so that starting it costs a few milliseconds.
The kernel sends the signal when the *thread* that forked ends: fork only from a thread that outlives the child.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2)


def main(arguments: list[str]) -> None:
    """Ask the kernel for SIGKILL at the parent's death, then become the command; exits 127 if it cannot."""
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we could ask
        sys.exit(127)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
