"""`python -m scheduler`: run one scheduler process until TERM or INT."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Sequence

from scheduler.facts import Watcher
from scheduler.service import Scheduler
from tangram_tasks.app import TangramApp
from tangram_tasks.errors import TangramError


def nobody(app: TangramApp) -> Sequence[Watcher]:
    """Let nobody watch."""
    return ()


async def _run(watchers: Callable[[TangramApp], Sequence[Watcher]]) -> None:
    app = TangramApp("tangram")
    scheduler = Scheduler(app, watchers(app))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, scheduler.stop)
    await scheduler.run()


def main(watchers: Callable[[TangramApp], Sequence[Watcher]] = nobody) -> int:
    """Run until stopped; returns the exit code. `watchers` makes those who shall hear what the leader does."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(_run(watchers))
    except TangramError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  # the one place that speaks to a terminal
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
