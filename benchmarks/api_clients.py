"""One rollout process of `benchmarks.api`: calls an API in one of three ways and prints the seconds of every call."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable

import httpx

from scheduler.core.bucket import TokenBucket

Call = Callable[[], Awaitable[object]]


def tangram(broker: str, path: str) -> Call:
    """Return a call through Tangram."""
    from tangram_tasks import TangramApp
    from tangram_tasks.apis import http_get

    app = TangramApp("bench", broker=broker)
    app.set_current()
    app.set_default()
    return lambda: http_get.using(timeout=300).adelay("search", path)


def celery(broker: str, path: str) -> Call:
    """Return a call through plain Celery; its result is polled for, in a thread."""
    from celery import Celery

    app = Celery("bench", broker=broker, backend=broker)
    return lambda: asyncio.to_thread(lambda: app.send_task("bench.call", (path,)).get(timeout=600, interval=0.05))


def limited(url: str, path: str, share: float, window: float) -> Call:
    """Return a call that limits this process to its share of the quota, and backs off when it is refused."""
    client = httpx.AsyncClient(base_url=url, timeout=30)
    bucket = TokenBucket(share / window, max(1, int(share)), _ms())
    several = asyncio.Semaphore(2)

    async def call() -> object:
        while True:
            async with several:
                while bucket.tokens(_ms()) < 1:
                    await asyncio.sleep((bucket.when(_ms(), 1) - _ms()) / 1000)
                bucket.take(_ms(), 1)
                answer = await client.get(path)
            if answer.status_code == httpx.codes.OK:
                return answer
            await asyncio.sleep(float(answer.headers["retry-after"]) * random.uniform(1, 2))

    return call


async def _timed(call: Call) -> float:
    started = time.monotonic()
    await call()
    return time.monotonic() - started


async def _all(make: Callable[[], Call], calls: int) -> list[float]:
    call = make()
    return await asyncio.gather(*(_timed(call) for _ in range(calls)))


def _ms() -> int:
    return int(time.monotonic() * 1000)


def main(kind: str, broker: str, url: str, calls: str, share: str, window: str, answer_ms: str) -> None:
    """Call so many times at once, and print the seconds of each."""
    path = f"/ok?ms={answer_ms}"
    ways: dict[str, Callable[[], Call]] = {
        "tangram": lambda: tangram(broker, path),
        "celery": lambda: celery(broker, path),
        "limited": lambda: limited(url, path, float(share), float(window)),
    }
    print(json.dumps(asyncio.run(_all(ways[kind], int(calls)))))  # noqa: T201  # read by the benchmark


if __name__ == "__main__":
    main(*sys.argv[1:])
