"""Baseline "static": what a deployment without action-level scheduling does.

A trajectory gets a pod of fixed cores for as long as it lives (Kubernetes-like), first come, first served; a GPU
service has devices of its own. Nothing is shared, nothing is sized.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.core.domain import CPU, MEMORY
from scheduler.core.events import (
    Action,
    CloseSandbox,
    Decision,
    Event,
    Grant,
    NodeJoined,
    OpenSandbox,
    Reject,
    Released,
    SandboxReady,
    Submitted,
    TrajectoryClosed,
    TrajectoryOpened,
)


@dataclass(slots=True)
class Slot:
    """A reservation with its own queue: a trajectory's pod, or one replica of a service.

    Args:
        node: where it is; "" until there is room.
        units: what it has free.
        memory: MiB it holds on its node.
        ready: whether actions may start.
    """

    node: str
    units: int
    memory: int = 0
    ready: bool = True
    queue: deque[Action] = field(default_factory=deque)
    running: dict[str, int] = field(default_factory=dict)

    def start(self) -> list[Decision]:
        """Start who fits, first come, first served, each at the largest size that is free."""
        grants: list[Decision] = []
        while self.ready and self.queue and self.queue[0].sizes[0] <= self.units:
            action = self.queue.popleft()
            units = max(size for size in action.sizes if size <= self.units)
            self.units -= units
            self.running[action.id] = units
            grants.append(Grant(action.id, self.node, units))
        return grants

    def release(self, action: str) -> list[Decision]:
        """Take an action's units back. Returns who starts with them."""
        self.units += self.running.pop(action)
        return self.start()


class StaticScheduler:
    """Reserves per trajectory and per service.

    Args:
        pod: cores of every trajectory.
        groups: devices of a replica, by service.
        replicas: of every service.
    """

    def __init__(self, pod: int, groups: Mapping[str, int], replicas: int) -> None:
        self._pod = pod
        self._groups = groups
        self._replicas = replicas
        self._free: dict[str, Counter[str]] = {}
        self._pods: dict[str, Slot] = {}
        self._unplaced: deque[str] = deque()
        self._services: dict[str, list[Slot]] = {}
        self._of: dict[str, Slot] = {}

    def next_wake(self, now: int) -> int | None:
        """Return None: nothing ever depends on time alone."""
        return None

    def handle(self, event: Event) -> list[Decision]:
        """Take in one event and return what follows from it."""
        match event:
            case NodeJoined():
                return self._join(event)
            case TrajectoryOpened():
                self._pods[event.trajectory] = Slot("", self._pod, event.memory, ready=False)
                self._unplaced.append(event.trajectory)
                return self._place()
            case SandboxReady():
                self._pods[event.trajectory].ready = True
                return self._pods[event.trajectory].start()
            case TrajectoryClosed():
                return self._close(event.trajectory)
            case Submitted():
                return self._submit(event.action)
            case Released():
                return self._of.pop(event.action).release(event.action)
            case _:
                return []

    def _join(self, event: NodeJoined) -> list[Decision]:
        if event.kind == "gpu":
            self._dedicate(event.node, event.capacity["gpu"])
            return []
        self._free[event.node] = Counter(event.capacity)
        return self._place()

    def _dedicate(self, node: str, devices: int) -> None:
        """Give the devices of a node to services that lack replicas, the widest first."""
        for service in sorted(self._groups, key=lambda name: -self._groups[name]):
            slots, group = self._services.setdefault(service, []), self._groups[service]
            while len(slots) < self._replicas and devices >= group:
                slots.append(Slot(node, group))
                devices -= group

    def _place(self) -> list[Decision]:
        placed: list[Decision] = []
        while self._unplaced:
            slot = self._pods[self._unplaced[0]]
            able = (node for node, free in self._free.items() if free[CPU] >= self._pod and free[MEMORY] >= slot.memory)
            node = max(able, key=lambda node: self._free[node][CPU], default=None)
            if node is None:
                break
            slot.node = node
            self._free[node].subtract({CPU: self._pod, MEMORY: slot.memory})
            placed.append(OpenSandbox(self._unplaced.popleft(), node))
        return placed

    def _close(self, trajectory: str) -> list[Decision]:
        slot = self._pods.pop(trajectory)
        self._free[slot.node].update({CPU: self._pod, MEMORY: slot.memory})
        return [CloseSandbox(trajectory, slot.node), *self._place()]

    def _submit(self, action: Action) -> list[Decision]:
        slots = self._services.get(action.service or "", [])
        if action.trajectory is not None:
            slots = [self._pods[action.trajectory]]
        slot = min(slots, key=lambda slot: len(slot.queue) + len(slot.running), default=None)
        reserved = self._pod if action.key == CPU else self._groups.get(action.service or "", 0)
        if slot is None or action.sizes[0] > reserved:
            why = f"action {action.id} needs {action.sizes[0]} {action.key}, and its static reservation has"
            return [Reject(action.id, "infeasible", f"{why} {0 if slot is None else reserved}: reserve more")]
        self._of[action.id] = slot
        slot.queue.append(action)
        return slot.start()
