"""Replays a record of a real run: the same decisions again, and the same arrivals under other policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from compose.simulate.cluster import Cluster, CpuNodes, GpuNodes, Provider
from compose.simulate.work import Plan, Turn, Work, Workload
from scheduler.core.admission import Admission
from scheduler.core.domain import CPU, MEMORY
from scheduler.core.events import Action, Event, Grant, NodeJoined, Released, Submitted, TrajectoryOpened
from scheduler.core.gpu_node import GPU
from scheduler.record import Lead, Step


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a replay went.

    Args:
        events: how many were replayed.
        decisions: how many were equal.
        difference: the first difference in words; None if all are equal.
    """

    events: int
    decisions: int
    difference: str | None = None


def replay(leads: Iterable[Lead]) -> Replayed:
    """Feed each lead's events to a fresh core, up to the first decision that differs.

    Raises:
        ValueError: a lead names a policy that does not exist here.
    """
    events = decisions = 0
    for lead in leads:
        core = Admission(lead.policy, lead.depth, gpu_policy=lead.gpu_policy)
        for step in lead.steps:
            found = core.handle_all(step.events)
            events += len(step.events)
            if found != step.decisions:
                return Replayed(events, decisions, _difference(step, found))
            decisions += len(found)
    return Replayed(events, decisions)


def _difference(step: Step, found: Sequence[object]) -> str:
    recorded = _words(step.decisions)
    return f"line {step.line}, {_words(step.events)}: the record has {recorded}, now it is {_words(found)}"


def _words(decisions: Sequence[object]) -> str:
    return ", ".join(map(str, decisions)) or "nothing"


@dataclass(slots=True)
class _Ran:
    """One recorded action; times in ms, `granted` is None until it is."""

    action: Action
    units: int = 0
    granted: int | None = None
    ended: int = 0

    def work(self) -> Work:
        """Return what it was, with its durations scaled to what it really took at the size it had."""
        action = self.action
        took = max(1, self.ended - (self.granted or 0))
        declared = action.durations[0 if action.light else action.sizes.index(self.units)]
        return Work(
            task=action.key,
            key=action.key,
            sizes=action.sizes,
            durations=tuple(max(1, round(took * each / declared)) for each in action.durations),
            malleable=action.malleable,
            light=action.light,
            service=action.service,
        )


def recorded_batch(leads: Iterable[Lead]) -> tuple[Workload, Cluster]:
    """Return what ran in a record as a batch, and the machines it ran on.

    Gaps are kept: from the end of a trajectory's action to its next one. Actions that overlap become one turn. An
    action without a trajectory is a trajectory of its own. What never ended in the record is left out. Nodes that
    joined at any time are there from the start.
    """
    steps = [step for lead in leads for step in lead.steps]
    ran = list(_ran(steps))
    memory = {event.trajectory: event.memory for event in _events(steps) if isinstance(event, TrajectoryOpened)}
    first = min((one.action.arrival for one in ran), default=0)
    groups: dict[str, list[_Ran]] = {}
    for one in sorted(ran, key=lambda one: one.action.arrival):
        groups.setdefault(one.action.trajectory or one.action.id, []).append(one)
    services = {one.action.service: 0 for one in ran if one.action.service is not None}
    plans = tuple(_plan(name, rows, first, memory.get(name)) for name, rows in groups.items())
    return Workload("recorded", plans, restores=services), _cluster(steps)


def _ran(steps: Iterable[Step]) -> Iterator[_Ran]:
    running: dict[str, _Ran] = {}
    for step in steps:
        for event in step.events:
            match event:
                case Submitted(action=action):
                    running.setdefault(action.id, _Ran(action))
                case Released(action=name, at=at) if name in running and running[name].granted is not None:
                    yield replace(running.pop(name), ended=at)
        for decision in step.decisions:
            if isinstance(decision, Grant) and decision.action in running:
                running[decision.action].units = decision.units
                running[decision.action].granted = step.events[-1].at


def _events(steps: Iterable[Step]) -> Iterator[Event]:
    return (event for step in steps for event in step.events)


def _plan(name: str, rows: Sequence[_Ran], first: int, memory: int | None) -> Plan:
    turns: list[Turn] = []
    together: list[Work] = []
    start = end = rows[0].action.arrival
    gap = 0
    for row in rows:
        if row.action.arrival >= end:
            if together:
                turns.append(Turn(gap, tuple(together)))
            together, gap = [], row.action.arrival - end
        together.append(row.work())
        end = max(end, row.ended)
    turns.append(Turn(gap, tuple(together)))
    return Plan(name, tuple(turns), start - first, memory)


def _cluster(steps: Iterable[Step]) -> Cluster:
    joined = {event.node: event for event in _events(steps) if isinstance(event, NodeJoined)}
    cpu = [one.capacity for one in joined.values() if one.kind == "cpu"]
    gpu = [one.capacity for one in joined.values() if one.kind == "gpu"]
    quotas = {name: quota for one in joined.values() for name, quota in one.quotas.items()}
    return Cluster(
        cpu=tuple(CpuNodes(cores=capacity[CPU], memory_mib=capacity.get(MEMORY, 0)) for capacity in cpu),
        gpu=tuple(GpuNodes(gpus=capacity[GPU]) for capacity in gpu),
        providers={
            name: Provider(concurrency=quota.concurrency, per_second=quota.per_second, burst=quota.burst)
            for name, quota in quotas.items()
        },
    )
