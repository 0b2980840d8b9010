"""`python -m compose.scheduler_process`: one scheduler process, with everything that watches it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from monitoring.admission_worker import AdmissionWorker
from monitoring.tracer import trace_admissions
from scheduler.__main__ import main as run_scheduler
from scheduler.facts import Watcher
from tangram_tasks.app import TangramApp
from tangram_tasks.tracing import TRACING


def main() -> int:
    """Run until stopped; returns the exit code."""
    with ExitStack() as until_stopped:

        def watchers(app: TangramApp) -> Sequence[Watcher]:
            worker = AdmissionWorker(app)
            until_stopped.callback(worker.join)
            address = app.settings.metrics
            counting = [_metrics(address, until_stopped)] if address else []
            return [worker, *counting, *([trace_admissions] if TRACING else [])]

        return run_scheduler(watchers)


def _metrics(address: str, until_stopped: ExitStack) -> Watcher:
    """Return a watcher that counts, and serve what it counts. Raises ConfigurationError."""
    from tangram_tasks.errors import ConfigurationError

    try:
        from monitoring.exporter import serve_metrics
        from monitoring.metrics import Metrics
    except ModuleNotFoundError:
        raise ConfigurationError("TANGRAM_METRICS needs prometheus-client: install tangram-rl[monitoring]") from None
    metrics = Metrics()
    until_stopped.enter_context(serve_metrics(address, metrics.registry))
    return metrics


if __name__ == "__main__":
    sys.exit(main())
