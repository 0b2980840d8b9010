"""Trajectories: which node each one's sandbox lives on, and who still waits for memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.core.cpu import CpuNode
from scheduler.core.domain import MEMORY, in_words
from scheduler.core.pool import NodePool


@dataclass(slots=True)
class Trajectory:
    """One trajectory.

    Args:
        id: its id.
        memory: MiB of its sandbox.
        node: where the sandbox lives; None until there is room for it.
        ready: whether the sandbox is up.
        home: the only node that will do, if it is not free to go anywhere.
    """

    id: str
    memory: int
    node: str | None = None
    ready: bool = False
    home: str | None = None


class Trajectories:
    """All open trajectories, and the memory their sandboxes hold.

    Args:
        pool: the CPU nodes.
    """

    def __init__(self, pool: NodePool[CpuNode]) -> None:
        self._pool = pool
        self._known: dict[str, Trajectory] = {}
        self._unplaced: dict[str, Trajectory] = {}

    def get(self, name: str) -> Trajectory | None:
        """Return an open trajectory, or None."""
        return self._known.get(name)

    def open(self, name: str, memory: int, home: str | None = None) -> None:
        """Let a trajectory wait for a node, or for the one named. One that is open already stays as it is."""
        if name not in self._known:
            self._known[name] = self._unplaced[name] = Trajectory(name, memory, home=home)

    def restore(self, name: str, memory: int, node: str, ready: bool) -> None:
        """Enter a trajectory that lives on `node` already, which may not have joined yet."""
        if name in self._known:
            return
        self._known[name] = Trajectory(name, memory, node, ready)
        if node in self._pool.nodes:
            self._pool.nodes[node].reserve(name, memory)

    def close(self, name: str) -> Trajectory | None:
        """Forget a trajectory and give its memory back. Returns it, or None if it is not known."""
        self._unplaced.pop(name, None)
        trajectory = self._known.pop(name, None)
        if trajectory is not None and trajectory.node in self._pool.nodes:
            self._pool.nodes[trajectory.node].unreserve(name)
        return trajectory

    def place(self) -> list[tuple[str, str]]:
        """Reserve memory first come, first served, on the node with most of it free. Returns (trajectory, node).

        One that is bound to a node holds up nobody but those bound to the same node.
        """
        placed: list[tuple[str, str]] = []
        full: set[str | None] = set()
        for trajectory in list(self._unplaced.values()):
            if trajectory.home in full:
                continue
            able = [node for node in self._choices(trajectory) if node.free_memory >= trajectory.memory]
            if not able:  # nobody overtakes: a large sandbox would otherwise wait for ever
                full.add(trajectory.home)
                continue
            node = max(able, key=lambda node: node.free_memory)
            node.reserve(trajectory.id, trajectory.memory)
            trajectory.node = node.name
            del self._unplaced[trajectory.id]
            placed.append((trajectory.id, node.name))
        return placed

    def impossible(self, only: str | None = None) -> list[tuple[str, str]]:
        """Return (trajectory, why) for those whose memory no node that is present and would do could ever hold.

        Args:
            only: the one to look at; by default all that have no node.
        """
        looked = self._unplaced if only is None else self._unplaced.keys() & {only}
        rows = [(name, self._refusal(self._unplaced[name])) for name in looked]
        return [(name, why) for name, why in rows if why is not None]

    def node_joined(self, node: str) -> list[str]:
        """Reserve memory for restored trajectories of a node. Returns all trajectories that live there."""
        here = self._on(node)
        for trajectory in here:
            if trajectory.id not in self._pool.nodes[node].sandboxes:
                self._pool.nodes[node].reserve(trajectory.id, trajectory.memory)
        return [trajectory.id for trajectory in here]

    def node_lost(self, node: str, kept: frozenset[str] = frozenset()) -> list[str]:
        """Forget the trajectories of a node that has left the pool, or can only go there, but those `kept`."""
        bound = [trajectory for trajectory in self._unplaced.values() if trajectory.home == node]
        gone = [trajectory.id for trajectory in [*self._on(node), *bound] if trajectory.id not in kept]
        for name in gone:
            del self._known[name]
            self._unplaced.pop(name, None)
        return gone

    def validate(self) -> None:
        """Raise AssertionError if the books do not add up."""
        for node in self._pool.domains():
            here = {trajectory.id: trajectory.memory for trajectory in self._on(node.name)}
            assert node.sandboxes == here, (
                f"node {node.name}: memory is held for {node.sandboxes}, but {here} live there"
            )
        unplaced = {name for name, trajectory in self._known.items() if trajectory.node is None}
        assert self._unplaced.keys() == unplaced, f"trajectories {unplaced} have no node, {list(self._unplaced)} wait"

    def _choices(self, trajectory: Trajectory) -> Iterator[CpuNode]:
        if trajectory.home is None:
            return (node for node in self._pool.domains() if not node.draining)
        return (node for node in self._pool.domains() if node.name == trajectory.home)

    def _refusal(self, trajectory: Trajectory) -> str | None:
        who, demand = f"trajectory {trajectory.id}", {MEMORY: trajectory.memory}
        home = self._pool.nodes.get(trajectory.home or "")
        if home is None or home.could_hold(demand):
            return self._pool.too_big(who, demand)
        return f"{who} needs {in_words(demand)}, and {home.name}, the only node that will do, has less: ask for less"

    def _on(self, node: str) -> list[Trajectory]:
        return [trajectory for trajectory in self._known.values() if trajectory.node == node]
