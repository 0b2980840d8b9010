"""One engine's server: puts it to sleep and wakes it, and believes neither without proof."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tangram_tasks.errors import ServiceUnavailable
from workers.engines.control import Control
from workers.engines.limit import Limit
from workers.service import Away, Watch

logger = logging.getLogger(__name__)

MIB = 1 << 20
#: Bytes by which freed memory may fall short without a word: allocators and other processes on the device move a bit.
SLACK = 64 * MIB
#: Commands that had no effect, or were lost on the way, are given so often.
TRIES = 3
_LOOK = 0.1  # seconds between looks at the device's free memory

#: Free bytes of a device by its id; None if nobody can tell.
MemoryProbe = Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the engine may take, in seconds.

    Args:
        sleep: to end what runs and give its memory up.
        wake: to take its memory again.
        canary: to answer its canary after that.
        settle: until memory that it says it gave up is free.
    """

    sleep: float = 60.0
    wake: float = 120.0
    canary: float = 30.0
    settle: float = 5.0


class Engine:
    """An engine on one device, or on several that it spans.

    It is woken when all its devices have room for it, and put to sleep when the first one is needed back.

    Args:
        name: of its service.
        control: its commands.
        devices: ids of its devices.
        nbytes: bytes that sleeping gives up on each device.
        probe: tells free memory.
        check: asks the canary; returns what is wrong with the answer, or "".
        patience: how long it may take.
    """

    def __init__(
        self,
        name: str,
        control: Control,
        devices: tuple[str, ...],
        nbytes: int,
        *,
        probe: MemoryProbe,
        check: Callable[[Watch], str],
        patience: Patience,
    ) -> None:
        self._name = name
        self._control = control
        self._devices = devices
        self._nbytes = nbytes
        self._probe = probe
        self._check = check
        self._patience = patience
        self._lock = threading.Lock()
        self._placed: set[str] = set()
        self._awake = True  # until `adopt` has put it to sleep
        self._leaked = 0

    def adopt(self) -> None:
        """Put it to sleep, whatever it does at our start. Raises ServiceUnavailable."""
        with self._lock:
            self._sleep()

    def enter(self, device: str) -> None:
        """Let it use a device; with the last of its devices it wakes up. Raises ServiceUnavailable."""
        with self._lock:
            self._placed.add(device)
            if len(self._placed) == len(self._devices):
                self._wake()

    def leave(self, device: str) -> int:
        """Take a device back; returns how many of its bytes are still taken there. Raises ServiceUnavailable."""
        with self._lock:
            was_here = device in self._placed
            self._placed.discard(device)
            if self._awake:
                self._sleep()
            return self._leaked if was_here else 0  # what it kept is its own when it wakes up again

    def _wake(self) -> None:
        limit = Limit(f"waking the engine of {self._name}", self._patience.wake)
        self._awake = True  # from here on it may hold memory, whatever it answers
        self._until(False, self._control.resume, limit)
        problem = self._check(Limit("the canary", self._patience.canary))
        if problem:
            raise ServiceUnavailable(f"the engine of {self._name} woke up wrong: {problem}")

    def _sleep(self) -> None:
        limit = Limit(f"putting the engine of {self._name} to sleep", self._patience.sleep)
        before = self._free()
        if self._control.asleep(limit) is True:
            self._awake = False
            return
        self._until(True, self._control.release, limit)
        self._leaked = self._shortfall(before)
        self._awake = False
        if self._leaked:
            logger.warning(
                "the engine of %s is LEAKY: asleep it keeps %.1f MiB that it should have given up; they are charged",
                self._name,
                self._leaked / MIB,
            )

    def _until(self, asleep: bool, command: Callable[[Watch], None], limit: Limit) -> None:
        """Give a command until the engine's state is the wanted one, or it cannot tell its state."""
        lost: Away | None = None
        for _ in range(TRIES):
            if self._control.asleep(limit) is asleep:
                return
            try:
                command(limit)
                lost = None
            except Away as error:  # the command may have arrived
                lost = error
            state = self._control.asleep(limit)
            if state is asleep or (state is None and lost is None):
                return
        word = "asleep" if asleep else "awake"
        raise lost or ServiceUnavailable(
            f"the engine of {self._name} answered {TRIES} times that it is done, and is not {word}"
        )

    def _shortfall(self, before: list[int] | None) -> int:
        """Return how many bytes less than promised became free on one of the devices; 0 if nobody can tell."""
        if before is None:
            return 0
        end = time.monotonic() + self._patience.settle
        while True:
            after = self._free()
            if after is None:
                return 0
            freed = min(now - then for now, then in zip(after, before, strict=True))
            if freed >= self._nbytes - SLACK:
                return 0
            if time.monotonic() >= end:
                break
            time.sleep(_LOOK)
        if freed <= min(SLACK, self._nbytes // 2):
            raise ServiceUnavailable(
                f"the engine of {self._name} says that it sleeps, but its {self._nbytes / MIB:.1f} MiB are still taken"
            )
        return self._nbytes - freed

    def _free(self) -> list[int] | None:
        free = [self._probe(device) for device in self._devices]
        return None if any(one is None for one in free) else [one for one in free if one is not None]
