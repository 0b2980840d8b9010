"""An action that was published: its id, its result, its report."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Protocol

from tangram_tasks.backend import REPORT
from tangram_tasks.control_messages import CancelAction, ControlMessage
from tangram_tasks.report import ActionReport


class ResultPump(Protocol):
    """What a handle needs of the hub."""

    async def control(self, message: ControlMessage) -> None:
        """Tell the scheduler something. Raises BrokerUnavailable."""

    def outcome(self, meta: dict[str, Any]) -> Any:
        """Return the result in Celery's metadata, or raise the error in it."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run in the background."""


class ActionHandle:
    """An action that was published. Await it for its result.

    Args:
        hub: the hub that waits for it.
        action: its task id.
        meta: resolves to Celery's result metadata.
    """

    def __init__(self, hub: ResultPump, action: str, meta: asyncio.Future[dict[str, Any]]) -> None:
        self.id = action
        self._hub = hub
        self._meta = meta

    def __await__(self) -> Generator[Any, None, Any]:
        return self._result().__await__()

    async def _result(self) -> Any:
        return self._hub.outcome(await asyncio.shield(self._meta))

    async def result_or_cancel(self) -> Any:
        """Await the result; if the await is cancelled, so is the action."""
        try:
            return await self._result()
        except asyncio.CancelledError:
            if not self._meta.done():
                self._hub.spawn(self.cancel())
            raise

    async def cancel(self) -> None:
        """Ask for the action to be cancelled, waiting or running; awaiting it then raises ActionCancelled."""
        await self._hub.control(CancelAction(action=self.id))

    @property
    def done(self) -> bool:
        """Whether the outcome is known here."""
        return self._meta.done()

    @property
    def report(self) -> ActionReport | None:
        """Where its time went; None until it is done, and for actions that never started."""
        if not self._meta.done() or self._meta.cancelled() or self._meta.exception() is not None:
            return None
        found = self._meta.result().get(REPORT)
        return ActionReport.model_validate(found) if found else None
