"""How many calls one API worker process has in flight at once, and what that costs it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from benchmarks.counting_server import CountingServer
from benchmarks.machine import machine
from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import TangramApp
from tangram_tasks.apis import http_get

CALLS = 2000
ANSWER_MS = 25_000


def run() -> dict[str, Any]:
    """Measure: calls that the server saw at once, MiB and CPU seconds of the worker process."""
    with CountingServer() as server:
        provider = ProviderConfig(base_url=server.url, concurrency=CALLS, timeout=60)
        node = ApiNodeConfig(name="api-1", providers={"search": provider})
        with Stack(StackConfig(persistent=False, api=(node,))) as stack:
            app = TangramApp("client", broker=stack.broker_url)
            app.set_current()
            process = Path("/proc") / str(stack.children["api-1"].pid)
            before = _memory_mib(process), _cpu_seconds(process)
            asyncio.run(_call_all())
            after = _memory_mib(process), _cpu_seconds(process)
            app.close()
        most = server.books.most_in_flight
    return {
        "name": "in_flight",
        "value": most,
        "unit": "calls at once in one process",
        "reach": ">= 2,000",
        "holds": most >= CALLS,
        "n": CALLS,
        "spread": {"memory_mib": [round(before[0]), round(after[0])]},
        "machine": machine(),
        "detail": {"cpu_ms_per_call": round((after[1] - before[1]) * 1000 / CALLS, 2)},
    }


async def _call_all() -> None:
    await asyncio.gather(*(http_get.adelay("search", f"/ok?ms={ANSWER_MS}") for _ in range(CALLS)))


def _memory_mib(process: Path) -> float:
    lines = (process / "status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _cpu_seconds(process: Path) -> float:
    fields = (process / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    print(json.dumps(run()))  # noqa: T201  # its output is its purpose
