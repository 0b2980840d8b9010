"""Plays a trace of GPU actions in real time: the scheduler's core decides, GPU nodes in this process carry it out."""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from scheduler.core.admission import Admission
from scheduler.core.events import Action, Decision, Event, Grant, NodeJoined, PageIn, Released, Submitted, Tick
from workers.gpu_node import GpuNode

#: Seconds that an action may take at most.
LIMIT = 120.0


@dataclass(frozen=True, slots=True)
class Request:
    """One action of the trace.

    Args:
        at: seconds after the trace's begin.
        service: the reward model it calls.
        numbers: what it asks.
    """

    at: float
    service: str
    numbers: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trace.

    Args:
        acts: seconds from arrival to result, by request.
        answers: by request.
        seconds: from the first arrival to the last result.
        bytes_in: moved to devices.
        page_ins: how often.
    """

    acts: list[float]
    answers: list[list[float]]
    seconds: float
    bytes_in: float
    page_ins: float


class Player:
    """Plays a trace once.

    Args:
        nodes: by name; each with one device.
        policy: the core's policy for GPU nodes.
    """

    def __init__(self, nodes: Mapping[str, GpuNode], policy: str) -> None:
        self._nodes = nodes
        self._core = Admission(gpu_policy=policy)
        self._done: queue.SimpleQueue[tuple[int, list[float] | BaseException]] = queue.SimpleQueue()
        self._began = time.monotonic()

    def play(self, trace: Sequence[Request]) -> Outcome:
        """Return when every request is answered. Raises what the first one that failed raised."""
        acts, answers = [0.0] * len(trace), [list[float]()] * len(trace)
        with ThreadPoolExecutor(2 * len(self._nodes)) as threads:
            joined = [
                NodeJoined(0, name, "gpu", node.capacity, services=node.services) for name, node in self._nodes.items()
            ]
            self._decide(joined, trace, threads)
            self._began = time.monotonic()
            arrived = answered = 0
            while answered < len(trace):
                due = trace[arrived].at - self._seconds() if arrived < len(trace) else LIMIT
                events: list[Event] = []
                if due <= 0:
                    events.append(Submitted(self._now(), _action(arrived, trace[arrived])))
                    arrived += 1
                elif (ended := self._next(due)) is not None:
                    number, result = ended
                    if isinstance(result, BaseException):
                        raise result
                    acts[number], answers[number] = self._seconds() - trace[number].at, result
                    answered += 1
                    events.append(Released(self._now(), str(number)))
                else:
                    events.append(Tick(self._now()))
                self._decide(events, trace, threads)
        stats = [node.stats() for node in self._nodes.values()]
        totals = {name: sum(one[name] for one in stats) for name in ("bytes_in", "page_ins")}
        return Outcome(acts, answers, self._seconds(), **totals)

    def _next(self, due: float) -> tuple[int, list[float] | BaseException] | None:
        """Wait for the next end, the next arrival, or the core's wish to look again."""
        wake = self._core.next_wake(self._now())
        limit = due if wake is None else min(due, max(0.001, wake / 1e3 - self._seconds()))
        try:
            return self._done.get(timeout=limit)
        except queue.Empty:
            return None

    def _decide(self, events: Sequence[Event], trace: Sequence[Request], threads: ThreadPoolExecutor) -> None:
        decisions: list[Decision] = self._core.handle_all(events)
        for name, node in self._nodes.items():
            node.outlook.hint(self._core.next_services(name))
        for decision in decisions:
            if isinstance(decision, PageIn):
                threads.submit(self._nodes[decision.node].page_in, decision.service, decision.devices)
            elif isinstance(decision, Grant):
                threads.submit(self._run, int(decision.action), decision.node, trace)
            else:
                raise TypeError(f"the core answered {decision}")

    def _run(self, number: int, node: str, trace: Sequence[Request]) -> None:
        asked = trace[number]
        try:
            with self._nodes[node].lease(
                service=asked.service, action=str(number), units=1, deadline=time.monotonic() + LIMIT
            ) as lease:
                self._done.put((number, lease.call("score", {"numbers": list(asked.numbers)})))
        except BaseException as error:  # noqa: BLE001  # raised where the trace is played
            self._done.put((number, error))

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _now(self) -> int:
        return round(1e3 * self._seconds())


def _action(number: int, request: Request) -> Action:
    return Action(
        id=str(number),
        seq=number,
        arrival=round(1e3 * request.at),
        demand={"gpu": 1},
        key="gpu",
        sizes=(1,),
        durations=(20,),
        service=request.service,
    )
