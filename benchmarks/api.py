"""Eight rollout processes that call one API under a quota: Tangram against plain Celery and against limiting clients.

All three call the same kind of server, which counts and refuses. Plain Celery has `rate_limit` on its worker, set to
the quota divided by the workers, since each worker limits for itself. The clients limit themselves, each to its part
of the quota, and back off when they are refused, as client libraries do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import quantiles
from typing import Any

from benchmarks.counting_server import Books, CountingServer
from benchmarks.machine import machine
from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks.sharing import WindowRecord

PROCESSES = 8
CALLS = 100
WORKERS = 2
CONCURRENCY = 10
LIMIT, WINDOW = 300, 10.0  # calls in any so many seconds
ANSWER_MS = 50


def run() -> dict[str, Any]:
    """Measure; times in s."""
    rows = {
        "tangram": _measure(_tangram),
        "celery rate_limit": _measure(_plain_celery),
        "client-side limiters": _measure(_clients),
    }
    ours = rows["tangram"]
    ideal = (PROCESSES * CALLS - 1) // LIMIT * WINDOW
    used = ideal / ours["last_full_window_s"]
    holds = not ours["refused"] and ours["most_in_flight"] <= CONCURRENCY and ours["most_in_window"] <= LIMIT
    return {
        "name": "api",
        "value": round(used, 4),
        "unit": "of the allowed rate used",
        "reach": f">= 0.97, no 429, never more than {CONCURRENCY} at once or {LIMIT} in {WINDOW:g} s",
        "holds": holds and used >= 0.97,
        "n": PROCESSES * CALLS,
        "spread": {"wall_s": {name: row["wall_s"] for name, row in rows.items()}},
        "machine": machine(),
        "detail": rows,
    }


def _measure(publish: Callable[[CountingServer], list[float]]) -> dict[str, Any]:
    with CountingServer(CONCURRENCY, LIMIT, WINDOW) as server:
        seconds = publish(server)
        return _row(server.books, seconds)


def _row(books: Books, seconds: list[float]) -> dict[str, Any]:
    accepted_last = (PROCESSES * CALLS - 1) // LIMIT * LIMIT
    return {
        "refused": books.refused,
        "most_in_flight": books.most_in_flight,
        "most_in_window": books.most_within(WINDOW),
        "wall_s": round(books.arrivals[-1] - books.arrivals[0], 2),
        "last_full_window_s": round(books.arrivals[accepted_last] - books.arrivals[0], 3),
        "p50_s": round(quantiles(seconds, n=100)[49], 2),
        "p99_s": round(quantiles(seconds, n=100)[98], 2),
    }


def _tangram(server: CountingServer) -> list[float]:
    provider = ProviderConfig(
        base_url=server.url, concurrency=CONCURRENCY, windows=(WindowRecord(limit=LIMIT, seconds=WINDOW),)
    )
    nodes = tuple(ApiNodeConfig(name=f"api-{n}", providers={"search": provider}) for n in range(WORKERS))
    with Stack(StackConfig(persistent=False, api=nodes)) as stack:
        return _clients_of("tangram", stack.broker_url, server)


def _plain_celery(server: CountingServer) -> list[float]:
    with Stack(StackConfig(persistent=False)) as stack:
        workers = [_plain_worker(stack.broker_url, server.url, n) for n in range(WORKERS)]
        try:
            return _clients_of("celery", stack.broker_url, server)
        finally:
            for worker in workers:
                worker.terminate()
                worker.wait(20)


def _clients(server: CountingServer) -> list[float]:
    return _clients_of("limited", "", server)


def _clients_of(kind: str, broker: str, server: CountingServer) -> list[float]:
    """Run the rollout processes side by side. Returns the seconds from wish to answer of every call."""
    arguments = [kind, broker, server.url, str(CALLS), str(LIMIT / PROCESSES), str(WINDOW), str(ANSWER_MS)]
    command = [sys.executable, "-m", "benchmarks.api_clients", *arguments]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    answers = [child.communicate(timeout=600)[0] for child in children]
    return [seconds for answer in answers for seconds in json.loads(answer)]


def _plain_worker(broker: str, url: str, number: int) -> subprocess.Popen[bytes]:
    rate = f"{LIMIT / WINDOW * 60 / WORKERS:g}/m"
    environment = {**os.environ, "API_BENCH_BROKER": broker, "API_BENCH_URL": url, "API_BENCH_RATE": rate}
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.api_tasks", "worker", "-P", "threads"]
    options = ["-c", str(CONCURRENCY // WORKERS), "-n", f"plain{number}@%h", "-l", "ERROR"]
    worker = subprocess.Popen([*command, *options, "--without-mingle", "--without-gossip"], env=environment)
    time.sleep(3.0)  # it has no way to say that it is ready without a broadcast
    return worker


if __name__ == "__main__":
    print(json.dumps(run()))  # noqa: T201  # its output is its purpose
