"""An engine on one of its devices, as that device's pager moves it."""

from __future__ import annotations

from workers.engines.engine import Engine


class EngineReplica:
    """Implements `workers.service.Paged`.

    Args:
        engine: the engine, shared with its other devices.
        device: id of this one.
        nbytes: what it takes there beyond what it always holds.
    """

    def __init__(self, engine: Engine, device: str, nbytes: int) -> None:
        self.nbytes = nbytes
        self.leased = False
        self.engine = engine
        self._device = device

    def page_in(self, offset: int) -> None:
        """Wake the engine, once all its devices have room. Raises ServiceUnavailable."""
        self.engine.enter(self._device)

    def page_out(self) -> int:
        """Put the engine to sleep; returns bytes that it kept. Raises ServiceUnavailable."""
        return self.engine.leave(self._device)

    def settle(self) -> str:
        """An engine's weights are not ours to change."""
        return ""
