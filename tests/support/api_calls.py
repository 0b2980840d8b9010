"""Actions that call APIs, and a program that publishes many of them from a process of its own."""

from __future__ import annotations

import asyncio
import sys
import time

from tangram_tasks import TangramApp
from tangram_tasks.apis import current_api, http_get
from tangram_tasks.shared import shared_action


@shared_action(name="a.twice", api={"search": 2}, timeout=20)
def twice() -> int:
    """Send one request more than was granted, after two that were."""
    api = current_api()
    return sum(api.request("GET", "/ok").status_code for _ in range(3))


@shared_action(name="a.spin", cpu=1, timeout=60)
def spin(seconds: float) -> float:
    """Hold a core for a while."""
    time.sleep(seconds)
    return seconds


async def _publish(calls: int, path: str) -> None:
    results = await asyncio.gather(*(http_get.adelay("search", path) for _ in range(calls)))
    assert [row["status"] for row in results] == [200] * calls


if __name__ == "__main__":
    app = TangramApp("client", broker=sys.argv[1])
    app.set_current()
    app.set_default()
    asyncio.run(_publish(int(sys.argv[2]), sys.argv[3]))
