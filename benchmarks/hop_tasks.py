"""The two tasks that `benchmarks.hop` compares: both return the moment their body started."""

from __future__ import annotations

import time

from tangram_tasks import TangramApp

app = TangramApp("hop")


@app.task(name="hop.plain")
def plain() -> float:
    """Plain Celery: straight to the worker's queue."""
    return time.time()


@app.action(name="hop.gated", api="noop", timeout=30)
def gated() -> float:
    """An action: through admission, with durable books, START and DONE."""
    return time.time()
