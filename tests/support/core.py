"""Short ways to write the core's events, and a driver that checks the books after every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.core.admission import Admission
from scheduler.core.events import (
    Action,
    Decision,
    Event,
    Grant,
    NodeJoined,
    Reject,
    Released,
    Resize,
    Resized,
    SandboxReady,
    Submitted,
    TrajectoryOpened,
)
from scheduler.core.quota import Quota


def action(
    name: str,
    *,
    key: str = "cpu",
    sizes: Sequence[int] = (1,),
    durations: Sequence[int] | None = None,
    memory: int = 0,
    beside: dict[str, int] | None = None,
    seq: int | None = None,
    arrival: int = 0,
    trajectory: str | None = None,
    deadline: int | None = None,
    priority: int = 0,
    malleable: bool = False,
    job: str = "",
    light: bool = False,
    service: str | None = None,
) -> Action:
    """Return an action; `seq` is by default the number in its name, durations halve with doubled size."""
    demand = {key: sizes[0], **(beside or {})}
    return Action(
        id=name,
        seq=int("".join(filter(str.isdigit, name)) or 0) if seq is None else seq,
        arrival=arrival,
        demand=demand | {"memory": memory} if memory else demand,
        key=key,
        sizes=tuple(sizes),
        durations=tuple(durations) if durations else tuple(1000 // size for size in sizes),
        trajectory=trajectory,
        deadline=deadline,
        priority=priority,
        malleable=malleable,
        job=job,
        light=light,
        service=service,
    )


class Driver:
    """An Admission whose books are checked after every event, with the time kept for the test.

    Args:
        depth: of the policy.
        policy: of CPU nodes.
        options: other arguments of Admission.
    """

    def __init__(self, depth: int = 16, policy: str = "paper", **options: Any) -> None:
        self.core = Admission(policy, depth, **options)
        self.at = 0

    def feed(self, event: Event) -> list[Decision]:
        decisions = self.core.handle(event)
        self.core.validate()
        return decisions

    def submit(self, *actions: Action) -> list[Decision]:
        return [decision for one in actions for decision in self.feed(Submitted(self.at, one))]

    def cpu_node(self, name: str, cpu: int, memory: int = 1024) -> list[Decision]:
        return self.feed(NodeJoined(self.at, name, "cpu", {"cpu": cpu, "memory": memory}))

    def gpu_node(self, name: str, gpu: int, *services: str) -> list[Decision]:
        return self.feed(NodeJoined(self.at, name, "gpu", {"gpu": gpu}, services=services))

    def release(self, name: str) -> list[Decision]:
        return self.feed(Released(self.at, name))

    def resized(self, name: str, units: int) -> list[Decision]:
        return self.feed(Resized(self.at, name, units))

    def api_node(self, name: str, **quotas: Quota) -> list[Decision]:
        return self.feed(NodeJoined(self.at, name, "api", {}, quotas))

    def trajectory(self, name: str, memory: int = 100, *, ready: bool = True) -> list[Decision]:
        opened = self.feed(TrajectoryOpened(self.at, name, memory))
        return opened + self.feed(SandboxReady(self.at, name)) if ready else opened

    def where(self, name: str) -> str | None:
        """Return the domain in which an action queues."""
        return {row.action: row.domain for row in self.core.waiting()}[name]


def grants(decisions: list[Decision]) -> dict[str, tuple[str, int]]:
    """Return node and units of every grant by action."""
    return {row.action: (row.node, row.units) for row in decisions if isinstance(row, Grant)}


def resizes(decisions: list[Decision]) -> dict[str, int]:
    """Return the units of every resize by action."""
    return {row.action: row.units for row in decisions if isinstance(row, Resize)}


def rejects(decisions: list[Decision]) -> dict[str, str]:
    """Return the outcome of every rejection by action."""
    return {row.action: row.outcome for row in decisions if isinstance(row, Reject)}
