"""Which CPUs a grant gets, on a machine of two sockets with four cores of two threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.topologies import two_sockets
from workers.core_choice import choose, surplus
from workers.topology import Topology, parse_cpus, read_topology

ALL = set(range(16))


@pytest.fixture
def machine(tmp_path: Path) -> Topology:
    return two_sockets(tmp_path)


def test_the_kernels_lists_are_read() -> None:
    assert parse_cpus("0-2,8,10-11\n") == [0, 1, 2, 8, 10, 11]
    assert parse_cpus("\n") == []


def test_the_topology_is_read(machine: Topology) -> None:
    assert machine.siblings(11) == {3, 11}
    assert [machine.numa_of[cpu] for cpu in (0, 11, 4, 15)] == [0, 0, 1, 1]


def test_what_sys_does_not_say_is_a_core_each_on_one_node(tmp_path: Path) -> None:
    plain = read_topology([2, 5], tmp_path)
    assert plain.core_of == {2: 2, 5: 5}
    assert plain.numa_of == {2: 0, 5: 0}


def test_siblings_stay_together(machine: Topology) -> None:
    assert choose(machine, ALL, 2) == (0, 8)
    assert choose(machine, ALL, 4) == (0, 1, 8, 9)
    assert choose(machine, ALL, 3) == (0, 1, 8), "a core and one thread"


def test_single_threads_fill_a_core_before_they_open_another(machine: Topology) -> None:
    assert choose(machine, ALL - {1}, 1) == (9,)
    assert choose(machine, ALL - {1, 2}, 2) == (0, 8), "two threads get a whole core nevertheless"


def test_a_grant_stays_on_the_numa_node_where_it_fits_most_tightly(machine: Topology) -> None:
    assert choose(machine, ALL - {0, 8, 1, 9}, 4) == (2, 3, 10, 11), "socket 1 stays whole"
    assert choose(machine, ALL - {0, 8, 1, 9}, 6) == (4, 5, 6, 12, 13, 14), "socket 0 has only four left"


def test_what_fits_on_no_numa_node_is_spread_over_as_few_as_possible(machine: Topology) -> None:
    chosen = choose(machine, ALL - {0, 8}, 10)
    assert chosen is not None
    assert [cpu for cpu in chosen if machine.numa_of[cpu] == 1] == [4, 5, 6, 7, 12, 13, 14, 15]
    assert len(chosen) == 10


def test_a_growing_grant_stays_near(machine: Topology) -> None:
    assert choose(machine, ALL - {5}, 1, near=(5,)) == (13,), "the sibling first"
    assert choose(machine, ALL - {5, 13}, 2, near=(5, 13)) == (4, 12), "then the same socket"


def test_the_other_class_begins_at_the_other_end(machine: Topology) -> None:
    assert choose(machine, ALL, 2, last=True) == (7, 15)


def test_too_few_is_none(machine: Topology) -> None:
    assert choose(machine, {0, 1}, 3) is None


def test_a_shrinking_grant_gives_up_odd_threads_then_whole_cores(machine: Topology) -> None:
    assert surplus(machine, (0, 1, 8), 1) == (1,)
    assert surplus(machine, (0, 1, 8, 9), 2) == (1, 9)
    assert surplus(machine, (0, 4, 8, 12), 2) == (4, 12)
    assert surplus(machine, (0, 1, 2, 3, 4, 8), 1) == (4,), "what is far away first"
