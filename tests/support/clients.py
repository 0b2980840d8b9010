"""Rollout code's side of a running deployment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kombu import pools

from compose.embedded import Stack
from tangram_tasks import TangramApp


@contextlib.contextmanager
def client_of(stack: Stack) -> Iterator[TangramApp]:
    """Yield an app of rollout code; at the end its connections are closed, also those that Celery keeps in pools."""
    app = TangramApp("client", broker=stack.broker_url)
    app.set_current()
    try:
        yield app
    finally:
        app.close()
        app.redis.close()
        pools.reset()
