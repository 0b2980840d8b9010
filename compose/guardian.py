"""The last step of every stack, also after a kill -9: process groups, containers and temporary folders go.

The guardian is a process of its own that reads lines from its owner: `watch PGID`, `forget PGID`,
`containers OWNER`, `folder PATH`. When the owner closes the pipe or is no longer its parent, it cleans up and ends.
The kernel already kills the children of a dead owner; the guardian adds their descendants and what Docker keeps.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from compose.containers import remove_containers
from tangram_tasks.errors import ConfigurationError

_CHECK_PARENT = 1.0  # seconds
_FAREWELL = 60.0  # seconds that the last clean-up may take


class Guardian:
    """The owner's end: a handle on the guardian process.

    Args:
        log: file for its complaints.
    """

    def __init__(self, log: Path) -> None:
        self._lock = threading.Lock()
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "compose.guardian", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                text=True,
                bufsize=1,
            )

    def watch(self, group: int) -> None:
        """Kill this process group at the end."""
        self._tell(f"watch {group}")

    def forget(self, group: int) -> None:
        """This process group is gone."""
        self._tell(f"forget {group}")

    def remove_containers(self, owner: str) -> None:
        """Remove the containers labelled with this owner at the end."""
        self._tell(f"containers {owner}")

    def remove_folder(self, folder: Path) -> None:
        """Remove this folder at the end."""
        self._tell(f"folder {folder}")

    def close(self) -> None:
        """Let it clean up and wait until it has. Raises ConfigurationError if it cannot finish in a minute."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            if self._popen.stdin is not None:
                self._popen.stdin.close()
        try:
            self._popen.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
            raise ConfigurationError("could not clean up within a minute: run `tangram down` once more") from None

    def _tell(self, line: str) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):  # it was killed, or is closed
            if self._popen.stdin is not None:
                self._popen.stdin.write(line + "\n")


def _lines(parent: int) -> Iterator[str]:
    """Yield the owner's lines until it closes the pipe, or is gone while a fork of it keeps the pipe open."""
    pending = b""
    while True:
        if select.select([0], [], [], _CHECK_PARENT)[0]:
            chunk = os.read(0, 65536)
            if not chunk:
                return
            *lines, pending = (pending + chunk).split(b"\n")
            yield from (line.decode() for line in lines)
        elif os.getppid() != parent:
            return


def main(parent: int) -> None:
    """Remember what the owner says; clean up when it is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    owners: set[str] = set()
    folders: set[Path] = set()
    for line in _lines(parent):
        verb, _, value = line.partition(" ")
        match verb:
            case "watch":
                groups.add(int(value))
            case "forget":
                groups.discard(int(value))
            case "containers":
                owners.add(value)
            case "folder":
                folders.add(Path(value))
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for owner in owners:
        remove_containers(owner)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
