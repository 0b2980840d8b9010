"""The node's book of units and cores."""

from __future__ import annotations

import pytest

from tangram_tasks.errors import ConfigurationError, SandboxError
from workers.cpu_book import CpuBook


def test_whole_units_are_cores_of_their_own() -> None:
    book = CpuBook([0, 2, 4, 6], 3, 1.0)
    assert book.units == 3
    first, second = book.take(2), book.take(1)
    assert (first.cpus, second.cpus) == ((0, 2), (4,))
    with pytest.raises(SandboxError, match="1 CPU units were granted, 0 of 3 are free"):
        book.take(1)
    book.give_back(first)
    assert book.take(2).cpus == (0, 2)


def test_fractions_share_all_cores() -> None:
    book = CpuBook([0, 1], 2, 0.25)
    assert book.units == 8
    assert book.take(8).cpus == ()
    assert book.free == 0


def test_a_machine_with_thirds_loses_nothing_to_rounding() -> None:
    assert CpuBook(range(3), 0.3, 0.1).units == 3


@pytest.mark.parametrize("units", [0, -1, 5])
def test_bad_amounts_are_refused(units: int) -> None:
    book = CpuBook(range(4), 4, 1.0)
    with pytest.raises(SandboxError):
        book.take(units)
    assert book.free == 4


@pytest.mark.parametrize(
    ("cores", "unit", "message"),
    [(4, 1.0, "4 cores were asked for; this machine lets us use 2"), (2, 0.0, "at most 1 core"), (0.5, 1.0, "a unit")],
)
def test_what_the_machine_does_not_have_is_refused(cores: float, unit: float, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CpuBook([0, 1], cores, unit)
