"""`python -m compose.scheduler_process`: one scheduler process, with everything that watches it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from monitoring.admission_worker import AdmissionWorker
from scheduler.__main__ import main as run_scheduler
from scheduler.facts import Watcher
from tangram_tasks.app import TangramApp


def main() -> int:
    """Run until stopped; returns the exit code."""
    workers: list[AdmissionWorker] = []

    def watchers(app: TangramApp) -> Sequence[Watcher]:
        workers.append(AdmissionWorker(app))
        return workers

    try:
        return run_scheduler(watchers)
    finally:
        for worker in workers:
            worker.join()


if __name__ == "__main__":
    sys.exit(main())
