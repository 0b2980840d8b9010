"""Questions to the scheduler's books from other threads; its loop answers them, between two steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from scheduler.books import Books

T = TypeVar("T")

#: Seconds after which an asker gives up; the scheduler is then busy, or has stopped.
PATIENCE = 2.0


class Inquiry:
    """Asks one leader. Make it in the scheduler's loop.

    Args:
        books: the leader's.
    """

    def __init__(self, books: Books) -> None:
        self._books = books
        self._loop = asyncio.get_running_loop()

    def ask(self, view: Callable[[Books], T]) -> T:
        """Return what `view` says of the books.

        Raises:
            TimeoutError: the scheduler did not come to it.
            RuntimeError: it has stopped.
        """
        answer: Future[T] = Future()

        def give() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(view(self._books))
            except Exception as error:  # noqa: BLE001  # it belongs to whoever asked
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(give)
        try:
            return answer.result(PATIENCE)
        finally:
            answer.cancel()
