"""The simulated devices of a GPU node: aligned cells, residency, and waiting for a cell."""

from __future__ import annotations

from compose.simulate.devices import Devices
from compose.simulate.execution import Execution
from compose.simulate.work import Work

RESTORES = {"x": 50, "y": 70}


def score(name: str, units: int, service: str = "x") -> Execution:
    execution = Execution(name, Work("score", "gpu", (units,), (10,), service=service), 0, 0)
    execution.grant(0, "gpu-0", units)
    return execution


def test_free_devices_that_are_not_aligned_are_no_cell() -> None:
    devices = Devices(4, RESTORES)
    ones = [score(name, 1) for name in "abcd"]
    assert [devices.start(0, one) for one in ones] == [50] * 4
    assert devices.end(101, ones[1]) == []
    assert devices.end(102, ones[2]) == []
    wide = score("wide", 2, "y")
    assert devices.start(102, wide) is None  # devices 1 and 2 are free, but no pair starts at an odd place
    assert devices.end(103, ones[3]) == [(wide, 70)]
    assert devices.page_ins == 5


def test_a_warm_cell_is_chosen_before_an_empty_one() -> None:
    devices = Devices(4, RESTORES)
    first = score("a", 2)
    assert devices.start(0, first) == 50
    devices.end(100, first)
    assert devices.start(100, score("b", 2)) == 0
    assert devices.start(100, score("c", 2)) == 50


def test_part_of_a_warm_cell_is_warm() -> None:
    devices = Devices(2, RESTORES)
    wide = score("a", 2)
    devices.start(0, wide)
    devices.end(100, wide)
    assert [devices.start(100, score(name, 1)) for name in "bc"] == [0, 0]


def test_what_was_unused_for_longest_is_paged_out() -> None:
    devices = Devices(2, RESTORES)
    old, new = score("a", 1, "x"), score("b", 1, "y")
    devices.start(0, old)
    devices.start(0, new)
    devices.end(105, old)
    devices.end(109, new)
    assert devices.start(109, score("c", 1, "z")) == 0  # z costs nothing to page in; it takes the place of x
    assert devices.start(109, score("d", 1, "y")) == 0
    assert devices.page_ins == 3


def test_a_wide_service_pages_out_all_that_it_covers() -> None:
    devices = Devices(2, RESTORES)
    ones = [score("a", 1, "x"), score("b", 1, "y")]
    for one in ones:
        devices.start(0, one)
        devices.end(100, one)
    wide = score("c", 2, "y")
    assert devices.start(200, wide) == 70
    devices.end(300, wide)
    assert devices.start(300, score("d", 1, "x")) == 50


def test_a_hint_costs_whoever_comes_before_it_is_done() -> None:
    devices = Devices(2, RESTORES)
    devices.page_in(0, "x", (0,))
    devices.page_in(0, "y", (1,))
    assert devices.start(40, score("a", 1, "x")) == 10
    other = score("b", 1, "x")
    assert devices.start(40, other) == 80  # first what y still needs, then x
    devices.page_in(45, "y", (0, 1))
    assert devices.page_ins == 3, "both are in use"
