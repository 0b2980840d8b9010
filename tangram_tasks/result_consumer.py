"""Waits for results as Celery does, and does not rely on hearing of each.

Celery subscribes to a result and then looks whether it is there. These go over two connections, and Redis may take
the look, then the end of the action, and only then the subscription: nobody would ever tell of that result again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from celery.backends.redis import RedisBackend

#: Whoever waits looks again so often, s.
LOOK_AGAIN = 2.0

_CELERYS: Any = RedisBackend  # celery-types leaves its consumer out


class ResultConsumer(_CELERYS.ResultConsumer):  # type: ignore[misc]  # see above
    """Celery's, which also looks again now and then."""

    def _wait_for_pending(
        self, result: Any, timeout: float | None = None, on_interval: Callable[[], Any] | None = None, **options: Any
    ) -> Iterator[None]:
        looked = time.monotonic()

        def look_again() -> None:
            nonlocal looked
            if time.monotonic() - looked >= LOOK_AGAIN:
                self.on_wait_for_pending(result, timeout=timeout)
                looked = time.monotonic()
            if on_interval is not None:
                on_interval()

        yield from super()._wait_for_pending(result, timeout=timeout, on_interval=look_again, **options)
