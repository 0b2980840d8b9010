"""The state folder of one deployment on this machine: its lock, its owner id, its logs, its broker's URL."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

from tangram_tasks.errors import ConfigurationError
from tangram_tasks.settings import Settings, broker_url


class StateDir:
    """A folder that one stack at a time may use. Nothing is created before `lock` or `owner`.

    Args:
        path: the folder; made with mode 0700 when needed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = path / "logs"
        self.broker = path / "broker"  # the embedded broker's data
        self.broker_url = path / "broker.url"  # see tangram_tasks.settings.broker_file
        self.operator_url = path / "operator.url"  # of who may do everything, if that is somebody else
        self._lock = path / "lock"
        self._owner = path / "owner"
        self._descriptor: int | None = None

    def lock(self) -> None:
        """Make the folder and take it for this process. The kernel gives it back when the process dies.

        Raises:
            ConfigurationError: the folder cannot be written, or another process holds it.
        """
        self._make()
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode().strip() or "unknown"
            os.close(descriptor)
            raise ConfigurationError(
                f"process {holder} runs tangram in {self.path} already: use it, stop it with `tangram down`, "
                "or set TANGRAM_STATE_DIR to another folder"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def unlock(self) -> None:
        """Give the folder back. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def holder(self) -> int | None:
        """Return the process that holds the folder, or None."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.read(descriptor, 32).decode().strip()
            return int(text) if text.isdecimal() else None
        finally:
            os.close(descriptor)
        return None

    def owner(self) -> str:
        """Return the id by which this deployment's containers are labelled, made on first use."""
        self._make()
        with contextlib.suppress(FileExistsError):
            write_private(self._owner, secrets.token_hex(6), replace=False)
        return self._owner.read_text(encoding="utf-8").strip()

    def _make(self) -> None:
        try:
            for folder in (self.path, self.logs, self.broker):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = self.path / f".writable-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConfigurationError(
                f"the state folder {self.path} is not writable ({error.strerror}): make it so, "
                "or set TANGRAM_STATE_DIR to another folder"
            ) from None


def operator_url(config: Settings) -> str:
    """Return the broker's URL for people who run the deployment: the configured one, else the embedded broker's.

    Raises:
        BrokerUnavailable: neither exists.
    """
    file = StateDir(config.state_dir).operator_url
    if not config.broker_url and file.exists():
        return file.read_text(encoding="utf-8").strip()
    return broker_url(config)


def write_private(path: Path, text: str, *, replace: bool = True) -> None:
    """Write a file that only its owner can read, from its first byte on.

    Args:
        path: the file.
        text: its content.
        replace: an old file goes; otherwise FileExistsError is raised.
    """
    if replace:
        path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
