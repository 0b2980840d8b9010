"""The engine: one batch, one scheduler, in virtual time; no clock and no I/O. Hours pass in seconds."""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import count
from random import Random

from compose.simulate.agenda import Agenda
from compose.simulate.cluster import Cluster
from compose.simulate.driven import Scheduler
from compose.simulate.execution import Execution
from compose.simulate.machines import Costs, Machines
from compose.simulate.outcome import Finished, Gauge, Outcome
from compose.simulate.work import Plan, Work, Workload
from scheduler.core.domain import CPU
from scheduler.core.events import (
    Action,
    CloseSandbox,
    Event,
    Grant,
    OpenSandbox,
    PageIn,
    RefuseSandbox,
    Reject,
    Released,
    Resize,
    SandboxReady,
    Submitted,
    Tick,
    TrajectoryClosed,
    TrajectoryOpened,
)
from tangram_tasks.errors import Infeasible, TangramError


class Engine:
    """Runs one batch to its end.

    Args:
        scheduler: fresh; it decides.
        cluster: the machines.
        workload: the batch.
        costs: what the machinery adds.
        seed: of what is random while it runs, which is only the back-off of refused API calls.
        pod: cores that the scheduler reserves per open sandbox; 0 if it reserves none.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        cluster: Cluster,
        workload: Workload,
        costs: Costs | None = None,
        *,
        seed: int = 0,
        pod: int = 0,
    ) -> None:
        self._scheduler = scheduler
        self._cluster = cluster
        self._workload = workload
        self._costs = costs or Costs()
        self._pod = pod
        self._agenda = Agenda()
        self._machines = Machines(self._agenda, cluster, workload, self._costs, Random(seed), self._ended)
        self._seqs = count()
        self._unopened = deque(range(len(workload.plans)))
        self._turn = [0] * len(workload.plans)  # the next one, by place of the trajectory
        self._pending = [0] * len(workload.plans)  # actions of the turn that have not ended
        self._opened: dict[str, int] = {}
        self._executions: dict[str, Execution] = {}
        self._outcome = Outcome(cluster.capacity(), gauges=defaultdict(Gauge))

    def run(self) -> Outcome:
        """Run until every trajectory is over.

        Raises:
            Infeasible: an action or sandbox fits no node of the cluster.
            TangramError: the scheduler lets somebody wait for ever.
        """
        for joined in self._cluster.joins(self._workload.restores):
            self._feed(joined)
        for _ in range(self._workload.live or len(self._unopened)):
            self._open_next(0)
        while self._to_next_step():
            self._agenda.step()
        if self._executions or self._unopened:
            raise TangramError(
                f"{len(self._executions)} actions of workload {self._workload.name} wait for ever, among them"
                f" {next(iter(self._executions), '?')}: the policy is broken"
            )
        self._outcome.page_ins = self._machines.page_ins
        self._outcome.refused = self._machines.refused
        return self._outcome

    def _to_next_step(self) -> bool:
        """Give the scheduler the Ticks it wants before the next step. False: nothing is left to do."""
        agenda = self._agenda
        while (upcoming := agenda.upcoming()) != agenda.now:
            wake = self._scheduler.next_wake(agenda.now)
            if wake is None or (upcoming is not None and upcoming <= wake):
                break
            agenda.now = max(wake, agenda.now + 1)  # one that asks for "now" again gets the next ms
            self._feed(Tick(agenda.now))
        return upcoming is not None

    def _feed(self, event: Event) -> None:
        now = self._agenda.now
        for decision in self._scheduler.handle(event):
            match decision:
                case Grant():
                    self._grant(decision)
                case Resize():
                    self._resize(decision)
                case PageIn():
                    self._machines.page_in(decision)
                case OpenSandbox():
                    self._opened[decision.trajectory] = now
                    self._agenda.at(now + self._costs.sandbox, self._ready, decision.trajectory)
                case CloseSandbox():
                    self._outcome.reserved[CPU] += self._pod * (now - self._opened.pop(decision.trajectory))
                case Reject() | RefuseSandbox():
                    raise Infeasible(f"workload {self._workload.name} cannot run on this cluster: {decision.detail}")

    # -- trajectories

    def _open_next(self, earliest: int) -> None:
        if self._unopened:
            place = self._unopened.popleft()
            self._agenda.at(max(earliest, self._workload.plans[place].start), self._open, place)

    def _open(self, place: int) -> None:
        plan = self._workload.plans[place]
        if plan.memory is not None:
            self._feed(TrajectoryOpened(self._agenda.now, plan.id, plan.memory))
        self._next_turn(place)

    def _ready(self, trajectory: str) -> None:
        self._feed(SandboxReady(self._agenda.now, trajectory))

    def _next_turn(self, place: int) -> None:
        plan, now = self._workload.plans[place], self._agenda.now
        if self._turn[place] < len(plan.turns):
            self._agenda.at(now + plan.turns[self._turn[place]].gap, self._submit, place)
            return
        if plan.memory is not None:
            self._feed(TrajectoryClosed(now, plan.id))
        self._outcome.step = now
        self._open_next(now)

    def _submit(self, place: int) -> None:
        plan = self._workload.plans[place]
        works = plan.turns[self._turn[place]].actions
        self._turn[place] += 1
        self._pending[place] = len(works)
        for work in works:
            self._submit_one(plan, place, work)
        if not works:
            self._next_turn(place)

    # -- actions

    def _submit_one(self, plan: Plan, place: int, work: Work) -> None:
        now, seq = self._agenda.now, next(self._seqs)
        execution = Execution(f"{work.task}-{seq}", work, place, now)
        self._executions[execution.name] = execution
        self._outcome.gauges[work.key].change(now, 0, 1)
        action = Action(
            id=execution.name,
            seq=seq,
            arrival=now,
            demand={work.key: work.sizes[0]},
            key=work.key,
            sizes=work.sizes,
            durations=work.durations,
            trajectory=plan.id if plan.memory is not None and work.key == CPU else None,
            malleable=work.malleable,
            job=plan.job,
            light=work.light,
            service=work.service,
        )
        self._feed(Submitted(now, action))

    def _grant(self, decision: Grant) -> None:
        execution = self._executions[decision.action]
        execution.grant(self._agenda.now, decision.node, decision.units)
        self._outcome.gauges[execution.work.key].change(self._agenda.now, decision.units, -1)
        self._machines.start(execution)

    def _resize(self, decision: Resize) -> None:
        execution = self._executions[decision.action]
        self._outcome.resizes += 1
        self._outcome.gauges[execution.work.key].change(self._agenda.now, decision.units - execution.units, 0)
        self._machines.resize(execution, decision.units)

    def _ended(self, execution: Execution) -> None:
        now, work = self._agenda.now, execution.work
        del self._executions[execution.name]
        self._outcome.gauges[work.key].change(now, -execution.units, 0)
        self._outcome.finished.append(
            Finished(
                task=work.task,
                key=work.key,
                queue=execution.granted - execution.arrival,
                overhead=execution.began - execution.granted,
                execution=now - execution.began,
                held=execution.held,
            )
        )
        self._feed(Released(now, execution.name))
        self._pending[execution.owner] -= 1
        if not self._pending[execution.owner]:
            self._next_turn(execution.owner)
