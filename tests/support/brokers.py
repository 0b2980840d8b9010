"""A broker that a test kills, and that comes back without what it was told last."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from compose.broker import BrokerConfig, broker_config, check_broker
from compose.broker_binary import find_broker
from tangram_tasks.errors import BrokerUnavailable
from tests.waiting import wait_until


class ForgetfulBroker:
    """A server with an append-only file, whose state of a moment can be put back as if it had flushed nothing since.

    Args:
        folder: an empty folder.
        extra: further lines of its configuration.
    """

    def __init__(self, folder: Path, extra: str = "") -> None:
        self._folder = folder
        self._extra = extra
        self.config: BrokerConfig = broker_config(folder)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.config.url

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        file = self._folder / "broker.conf"
        file.write_text(self.config.text() + self._extra, encoding="utf-8")
        self._process = subprocess.Popen([find_broker(), str(file)], stdout=subprocess.DEVNULL)
        wait_until(self._answers, "the broker answers")

    def remember(self) -> None:
        """Keep what it has been told until now."""
        with redis.Redis.from_url(self.url) as client:
            for mode in ("always", "everysec"):  # switching writes out what is in memory
                client.config_set("appendfsync", mode)
                client.set("flush", mode)
        shutil.rmtree(self._folder / "kept", ignore_errors=True)
        shutil.copytree(self._folder / "appendonlydir", self._folder / "kept")

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def restart_as_remembered(self) -> None:
        """Kill it, and start it with what `remember` kept."""
        self.kill()
        shutil.rmtree(self._folder / "appendonlydir")
        shutil.copytree(self._folder / "kept", self._folder / "appendonlydir")
        self.start()

    def _answers(self) -> bool:
        try:
            check_broker(self.url, timeout=1.0)
        except BrokerUnavailable:
            return False
        return True
