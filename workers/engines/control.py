"""What differs between engines: how they are told to give their memory up, and to take it again."""

from __future__ import annotations

from typing import Protocol

from workers.service import Watch


class Control(Protocol):
    """The commands of one kind of engine. They return when the engine says that it is done, which proves nothing."""

    #: How the server must have been started, for messages.
    needs: str

    def asleep(self, watch: Watch) -> bool | None:
        """Whether the engine has given its memory up, as far as that is known; None if it cannot tell."""

    def release(self, watch: Watch) -> None:
        """Let running requests end, then give the memory up. Raises ServiceUnavailable."""

    def resume(self, watch: Watch) -> None:
        """Take the memory again. Raises ServiceUnavailable."""
