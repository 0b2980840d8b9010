"""The thread in which a device's runs happen, one after another."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class DeviceThread:
    """Runs work in one thread of its own, so that who asked can stop waiting for what never ends.

    The thread starts with the first work. It is a daemon: a run that never ends must not keep the process alive.

    Args:
        device: its name.
        prepare: done in the thread first.
    """

    def __init__(self, device: str, prepare: Callable[[], None] = lambda: None) -> None:
        self.device = device
        self._prepare = prepare
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        """Run work after whatever was submitted before."""
        with self._start:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"device-{self.device}", daemon=True)
                self._thread.start()
        future: Future[_T] = Future()
        self._work.put((future, work))
        return future

    def stop(self) -> None:
        """Let the thread end after what was submitted. Idempotent; it starts again with new work."""
        with self._start:
            if self._thread is not None:
                self._work.put(None)
                self._thread = None

    def _run(self) -> None:
        self._prepare()
        while (item := self._work.get()) is not None:
            future, work = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  # it belongs to who waits
                future.set_exception(error)
            del item, future, work  # they would keep a lease alive until the next work
