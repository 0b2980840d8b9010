"""`python -m scheduler`: run one scheduler process until TERM or INT."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from scheduler.service import Scheduler
from tangram_tasks.app import TangramApp
from tangram_tasks.errors import TangramError


async def _run() -> None:
    scheduler = Scheduler(TangramApp("tangram"))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, scheduler.stop)
    await scheduler.run()


def main() -> int:
    """Run until stopped; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(_run())
    except TangramError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  # the one place that speaks to a terminal
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
