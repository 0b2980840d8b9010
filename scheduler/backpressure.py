"""How many actions may wait: beyond that, callers are told at once to come back later."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.entries import Entries
from tangram_tasks.errors import NoCapacity

#: Seconds after which a refused caller may try again.
RETRY_AFTER = 5.0


@dataclass(frozen=True, slots=True)
class Backpressure:
    """Limits of the waiting set.

    Args:
        overall: actions that may wait in all.
        per_job: actions of one RL job that may wait.
    """

    overall: int = 200_000
    per_job: int = 100_000

    def objection(self, entries: Entries, job: str) -> NoCapacity | None:
        """Return why one more action of this job may not wait, or None."""
        if entries.waiting.total() >= self.overall:
            return NoCapacity(f"{self.overall} actions wait already, the limit (TANGRAM_MAX_WAITING)", RETRY_AFTER)
        if entries.waiting[job] >= self.per_job:
            whose = f"of job {job!r} " if job else ""
            limit = f"{self.per_job} actions {whose}wait already, the limit of a job (TANGRAM_MAX_WAITING_PER_JOB)"
            return NoCapacity(limit, RETRY_AFTER)
        return None
