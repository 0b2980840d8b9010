"""How long we wait for an engine."""

from __future__ import annotations

import time

from tangram_tasks.errors import ServiceUnavailable


class Limit:
    """A deadline of our own, for what no action waits for; implements `workers.service.Watch`.

    Args:
        what: what has to be done by then, for the message.
        seconds: from now.
    """

    def __init__(self, what: str, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self._what = what
        self._seconds = seconds

    def check(self) -> None:
        """Raise ServiceUnavailable after the deadline."""
        if time.monotonic() > self.deadline:
            raise ServiceUnavailable(f"{self._what}: not within {self._seconds:g} s")
