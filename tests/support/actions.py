"""Actions that the integration tests run on real workers."""

from __future__ import annotations

import time
from typing import Any

from celery import current_app, shared_task

from tangram_tasks.context import current_action
from tangram_tasks.elasticity import Amdahl
from tangram_tasks.sandbox import Sandbox
from tangram_tasks.shared import shared_action


def _count(name: str) -> None:
    app: Any = current_app
    app.redis.hincrby("executions", name, 1)


@shared_action(name="t.add", api="noop", timeout=30)
def add(x: int, y: int) -> int:
    return x + y


@shared_action(name="t.total", api="noop", timeout=30)
def total(parts: list[int]) -> int:
    return sum(parts)


@shared_action(name="t.counted", api="noop", timeout=30, max_attempts=5)
def counted(name: str, seconds: float = 0.0) -> str:
    time.sleep(seconds)
    _count(name)
    return name


@shared_action(name="t.nap", api="noop", timeout=30)
def nap(seconds: float) -> float:
    time.sleep(seconds)
    return time.time()


@shared_action(name="t.once", api="noop", timeout=30, on_lost="fail")
def once(seconds: float) -> None:
    time.sleep(seconds)


@shared_action(name="t.large", api="noop", timeout=30)
def large(size: int) -> str:
    return "x" * size


@shared_action(name="t.flaky_here", api="noop", timeout=30, bind=True, max_retries=2)
def flaky_here(self: Any, failures: int) -> int:
    """Fail so often, and write nothing down."""
    if self.request.retries < failures:
        raise self.retry(countdown=0.05, exc=ValueError("still flaky"))
    return int(self.request.retries)


@shared_action(name="t.fail", api="noop", timeout=30)
def fail(message: str) -> None:
    raise ValueError(message)


@shared_action(name="t.flaky", api="noop", timeout=30, bind=True, max_retries=2)
def flaky(self: Any, name: str, failures: int) -> int:
    _count(name)
    if self.request.retries < failures:
        raise self.retry(countdown=0.05, exc=ValueError("still flaky"))
    return int(self.request.retries)


@shared_action(name="t.replaced", api="noop", timeout=30, bind=True)
def replaced(self: Any, x: int) -> Any:
    return self.replace(add.s(x, 100))


@shared_action(name="t.overrun", api="noop", timeout=0.2)
def overrun(seconds: float) -> None:
    time.sleep(seconds)


@shared_action(name="t.cpu", cpu=(1, 2), elasticity=Amdahl(serial=0.1), timeout=30)
def on_cpu() -> int:
    return current_action().units


@shared_action(name="t.huge", cpu=4096, timeout=30)
def huge() -> None:
    """Asks for more than any node has."""


@shared_action(name="t.sizes", cpu=(1, 2), elasticity=Amdahl(serial=0.1), malleable=True, timeout=60)
def sizes(sandbox: Sandbox, marks: int) -> list[int]:
    """Return the sizes it had, in order, after so many changes."""
    return _sizes(sandbox, marks, 20.0)


@shared_action(name="t.rigid", cpu=(1, 2), elasticity=Amdahl(serial=0.1), timeout=60)
def rigid(sandbox: Sandbox) -> list[int]:
    """Return the sizes it had within a second."""
    return _sizes(sandbox, 1, 1.0)


@shared_action(name="t.peek", cpu=1, light=True, timeout=30)
def peek(sandbox: Sandbox) -> list[object]:
    """Return its units, how many workers it should start, and what it reads."""
    return [current_action().units, sandbox.cpus, sandbox.exec(["echo", "seen"]).stdout.strip()]


def _sizes(sandbox: Sandbox, marks: int, seconds: float) -> list[int]:
    app: Any = current_app
    seen, end = [sandbox.cpus], time.monotonic() + seconds
    app.redis.set("running", current_action().action)
    while len(seen) <= marks and time.monotonic() < end:
        time.sleep(0.01)
        if sandbox.cpus != seen[-1]:
            seen.append(sandbox.cpus)
    return seen


@shared_action(name="t.logged", api="noop", timeout=30)
def logged(file: str, name: str, seconds: float) -> str:
    """Write its name into a file that no broker can forget."""
    time.sleep(seconds)
    with open(file, "a", encoding="utf-8") as log:  # noqa: PTH123  # one write, whole lines
        log.write(f"{name}\n")
    return name


@shared_task(name="t.epitaph")
def epitaph(request: Any, error: Any, traceback: Any) -> None:
    """Write down which failure it was called for, as an errback with three arguments."""
    app: Any = current_app
    app.redis.hset("epitaphs", request.id, type(error).__name__)


@shared_task(name="t.note")
def note(*args: Any) -> None:
    _count("note")
