"""The node's book of units and cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tangram_tasks.errors import ConfigurationError, SandboxError
from tests.support.topologies import two_sockets
from workers.cpu_book import CpuBook
from workers.grant_unheld import GrantUnheld


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


def test_a_share_grows_and_shrinks_in_place() -> None:
    book = CpuBook(range(4), 4, 1.0)
    one, other = book.take(1), book.take(1)
    three, added = book.more(one, 3)
    assert (three.cpus, added.cpus, book.free) == ((0, 2, 3), (2, 3), 0)
    with pytest.raises(GrantUnheld, match="0 of 4 are free"):
        book.more(other, 2)
    kept, gone = book.less(three, 2)
    assert (kept.units, gone.units, book.free) == (2, 1, 0), "not free before it is given back"
    assert sorted(kept.cpus + gone.cpus) == list(three.cpus)
    book.give_back(gone)
    assert book.more(other, 2)[1].cpus == gone.cpus


def test_fractions_grow_by_number_only() -> None:
    book = CpuBook([0, 1], 2, 0.5)
    more, _ = book.more(book.take(1), 3)
    assert (more.units, more.cpus, book.free) == (3, (), 1)
    kept, gone = book.less(more, 2)
    assert (kept.units, kept.cpus, gone.units) == (2, (), 1)


def test_the_two_classes_never_share_a_core(tmp_path: Path) -> None:
    book = CpuBook(range(16), 16, 1.0, two_sockets(tmp_path))
    best_effort = book.take(1, "be")
    sensitive = [book.take(2) for _ in range(7)]
    assert best_effort.cpus == (7,)
    assert 15 not in {cpu for share in sensitive for cpu in share.cpus}
    with pytest.raises(GrantUnheld, match="1 are free here, but too few on cores apart from actions of another class"):
        book.take(1)
    assert book.take(1, "be").cpus == (15,)


def test_only_part_of_the_machine_is_whole_cores(tmp_path: Path) -> None:
    book = CpuBook(range(16), 4, 1.0, two_sockets(tmp_path))
    assert book.take(4).cpus == (0, 1, 8, 9)


def test_a_book_that_is_off_is_corrected() -> None:
    book = CpuBook(range(4), 4, 1.0)
    live, _leaked = book.take(1), book.take(2)
    assert book.settle([live]) == 2
    assert book.free == 3
    assert book.settle([live]) == 0
    assert book.take(3).cpus == (1, 2, 3)
