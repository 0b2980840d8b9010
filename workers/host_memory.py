"""The host memory that images share: when it is full, the least used image is left on disk only ("cold")."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tangram_tasks.errors import ConfigurationError

if TYPE_CHECKING:
    from torch import Tensor

    from workers.host_image import HostImage

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Entry:
    service: str
    image: HostImage
    users: int = 0
    charged: bool = True
    last_use: int = 0
    loading: threading.Lock = field(default_factory=threading.Lock)


class HostMemory:
    """Which images are in memory. A cold one is read back when it is needed, if there is room; else where it lies.

    Args:
        budget: bytes.
        folder: where cold images lie; the files have no names, so that nothing stays behind.
    """

    def __init__(self, budget: int, folder: Path) -> None:
        self._budget = budget
        self._folder = folder
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []
        self._uses = 0

    @property
    def cold(self) -> tuple[str, ...]:
        """The services whose images are on disk only."""
        return tuple(entry.service for entry in self._entries if entry.image.cold)

    def add(self, service: str, image: HostImage) -> None:
        """Take an image in; from now on it may become cold.

        Raises ConfigurationError if it cannot be written to disk.
        """
        entry = _Entry(service, image)
        self._entries.append(entry)
        image.hold = partial(self._hold, entry)
        if sum(one.image.nbytes for one in self._entries) <= self._budget:
            return
        logger.warning("host images take more than %d bytes: the least used ones stay on disk", self._budget)
        for one in self._entries:
            self._spill(one)
        with self._lock:
            self._make_room(0)

    def _spill(self, entry: _Entry) -> None:
        try:
            entry.image.spill(self._folder)
        except OSError as error:
            raise ConfigurationError(
                f"service {entry.service}: host images take more than {self._budget} bytes of memory, and its image "
                f"of {entry.image.nbytes} bytes cannot be written to {self._folder}: {error}"
            ) from error

    @contextmanager
    def _hold(self, entry: _Entry) -> Iterator[Tensor]:
        """Yield the image's bytes, which stay where they are for the length of the context."""
        with self._lock:
            self._uses += 1
            entry.last_use = self._uses
            entry.users += 1
        try:
            with entry.loading:
                if entry.image.cold:
                    self._warm(entry)
            yield entry.image.buffer
        finally:
            with self._lock:
                entry.users -= 1

    def _warm(self, entry: _Entry) -> None:
        with self._lock:
            entry.charged = self._make_room(entry.image.nbytes)
        if not entry.charged:
            return  # used where it lies
        try:
            entry.image.warm()
        except BaseException:
            entry.charged = False
            raise

    def _make_room(self, nbytes: int) -> bool:
        """Let idle images become cold until so many bytes are free; False if that cannot be."""
        idle = [entry for entry in self._entries if entry.charged and not entry.users and entry.image.spilled]
        for entry in sorted(idle, key=lambda one: one.last_use):
            if self._free() >= nbytes:
                break
            entry.image.cool()
            entry.charged = False
        return self._free() >= nbytes

    def _free(self) -> int:
        return self._budget - sum(one.image.nbytes for one in self._entries if one.charged)
