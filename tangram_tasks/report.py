"""Where an action's time went; travels with its result."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ActionReport(BaseModel):
    """The parts of one action's completion time (ACT = queue + overhead + exec), in seconds.

    Args:
        task: task name.
        node: where it ran.
        key: its key resource.
        units: units of the key resource granted at first.
        attempts: how often it was started, this one included.
        queue_s: published until granted.
        overhead_s: granted until the body starts, plus the body's end until the units are free.
        exec_s: the body itself.
        resize_s: part of the overhead: cgroup writes.
        restore_s: part of the overhead: paging a service in.
        sandbox_s: part of the queue: the sandbox was not ready yet.
        page_ins: services paged in for it.
        cpu_seconds: CPU time of its commands.
        peak_memory: bytes.
        units_over_time: (seconds since its resources were given, units from then on), where those could change.
        calls: requests to its API that left.
        sent_at: wall clock when the last of them had left; 0 if none has.
        tokens: what the API says they used; None if it does not say.
        started_at: wall clock, seconds since the epoch.
        ended_at: the same.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    task: str
    node: str
    key: str
    units: int
    attempts: int = 1
    queue_s: float = 0.0
    overhead_s: float = 0.0
    exec_s: float = 0.0
    resize_s: float = 0.0
    restore_s: float = 0.0
    sandbox_s: float = 0.0
    page_ins: int = 0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    units_over_time: tuple[tuple[float, int], ...] = ()
    calls: int = 0
    sent_at: float = 0.0
    tokens: int | None = None
    started_at: float = 0.0
    ended_at: float = 0.0

    @property
    def act_s(self) -> float:
        """Action completion time in seconds."""
        return self.queue_s + self.overhead_s + self.exec_s
