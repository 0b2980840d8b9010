"""The plain Celery task that `benchmarks.api` compares with: it calls the API, and tries again when it is refused."""

from __future__ import annotations

import os
import random
from typing import Any

import httpx
from celery import Celery

app = Celery("api", broker=os.environ.get("API_BENCH_BROKER"), backend=os.environ.get("API_BENCH_BROKER"))
app.conf.update(worker_prefetch_multiplier=1, task_acks_late=True)
_URL = os.environ.get("API_BENCH_URL", "")


@app.task(name="bench.call", bind=True, max_retries=None, rate_limit=os.environ.get("API_BENCH_RATE"))
def call(self: Any, path: str) -> int:
    """Call the API; on 429 come back after Retry-After and some jitter."""
    answer = httpx.get(_URL + path, timeout=30)
    if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
        raise self.retry(countdown=float(answer.headers["retry-after"]) * random.uniform(1, 2))
    return answer.status_code
