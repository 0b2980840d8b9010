"""Which CPUs a grant gets: on one NUMA node, whole cores first, leaving the others whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from workers.topology import Topology


def choose(
    topology: Topology, free: Collection[int], count: int, *, near: Collection[int] = (), last: bool = False
) -> tuple[int, ...] | None:
    """Choose `count` of the free CPUs, or return None if there are not as many.

    All come from the NUMA node that has just enough of them, so that larger grants find room on the others; only what
    fits on none is spread, over as few as possible.

    Args:
        topology: of the machine.
        free: CPUs that may be chosen.
        count: how many, at least 1.
        near: CPUs that the grant has already: their siblings and their NUMA nodes come first.
        last: prefer high ids over low ones.
    """
    if count > len(free):
        return None
    chosen: list[int] = []
    for numa in _numa_order(topology, free, count, near, last):
        here = {cpu for cpu in free if topology.numa_of[cpu] == numa}
        chosen += _from_node(topology, here, count - len(chosen), near, last)
    return tuple(sorted(chosen))


def surplus(topology: Topology, cpus: Collection[int], count: int) -> tuple[int, ...]:
    """Return the `count` CPUs that a grant gives up best: single threads first, then whole cores, highest first."""
    left, given = set(cpus), []
    for _ in range(count):
        crowd = {cpu: len(left & topology.siblings(cpu)) for cpu in left}
        local = {cpu: sum(topology.numa_of[other] == topology.numa_of[cpu] for other in left) for cpu in left}
        # A core that was opened is emptied before the next one is.
        leaves = min(left, key=lambda cpu: (local[cpu], crowd[cpu], -topology.core_of[cpu], -cpu))
        left.remove(leaves)
        given.append(leaves)
    return tuple(sorted(given))


def _numa_order(topology: Topology, free: Collection[int], count: int, near: Collection[int], last: bool) -> list[int]:
    room: dict[int, int] = defaultdict(int)
    held: dict[int, int] = defaultdict(int)
    for cpu in free:
        room[topology.numa_of[cpu]] += 1
    for cpu in near:
        held[topology.numa_of[cpu]] += 1

    def rank(numa: int) -> tuple[int, bool, int, int]:
        fits = room[numa] >= count
        return (-held[numa], not fits, room[numa] if fits else -room[numa], -numa if last else numa)

    return sorted(room, key=rank)


def _from_node(topology: Topology, free: set[int], count: int, near: Collection[int], last: bool) -> list[int]:
    """Choose up to `count` CPUs of one NUMA node: cores that are ours in part, whole cores, the fullest of the rest."""
    threads: dict[int, list[int]] = defaultdict(list)
    for cpu in sorted(free):
        threads[topology.core_of[cpu]].append(cpu)
    ours = {topology.core_of[cpu] for cpu in near}
    chosen: list[int] = []
    while threads and len(chosen) < count:
        missing = count - len(chosen)

        def rank(core: int, missing: int = missing) -> tuple[bool, bool, int, int]:
            idle = len(threads[core])
            whole = idle == len(topology.siblings(core))
            useful = whole and idle <= missing
            return (core not in ours, not useful, idle, -core if last else core)

        core = min(threads, key=rank)
        chosen += threads.pop(core)[:missing]
    return chosen
