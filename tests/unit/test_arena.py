"""Plain examples; the ledger of tests/property/test_arena_ledger.py does the rest."""

from __future__ import annotations

import pytest

from tangram_tasks.errors import ConfigurationError
from workers.arena import ALIGNMENT, Arena, Slab, aligned

UNIT = ALIGNMENT


def _arena(units: int, *owners: tuple[str, int]) -> Arena:
    arena = Arena(units * UNIT)
    for owner, size in owners:
        assert arena.alloc(owner, size * UNIT) is not None
    return arena


def test_sizes_are_rounded_up_to_the_alignment() -> None:
    assert [aligned(nbytes) for nbytes in (1, UNIT, UNIT + 1)] == [UNIT, UNIT, 2 * UNIT]


def test_the_smallest_hole_that_fits_is_taken() -> None:
    arena = _arena(10, ("a", 3), ("b", 1), ("c", 2), ("d", 1))
    arena.release("a")
    arena.release("c")

    assert arena.alloc("e", 2 * UNIT) == 4 * UNIT  # c's hole, not the larger one of a


def test_neighbouring_holes_become_one() -> None:
    arena = _arena(3, ("a", 1), ("b", 1), ("c", 1))
    for owner in ("a", "c", "b"):
        arena.release(owner)

    assert list(arena) == [Slab(0, 3 * UNIT)]


def test_what_does_not_fit_gets_nothing() -> None:
    arena = _arena(2, ("a", 1))

    assert arena.alloc("b", UNIT + 1) is None
    assert arena.alloc("b", UNIT) == UNIT


def test_the_window_used_longest_ago_is_given_up() -> None:
    arena = _arena(4, ("a", 1), ("b", 1), ("c", 1), ("d", 1))

    assert arena.window(2 * UNIT, {"a": 1, "b": 9, "c": 2, "d": 3}) == ("c", "d")


def test_a_window_uses_the_holes_beside_it() -> None:
    arena = _arena(4, ("a", 1), ("b", 1), ("c", 1))  # one hole at the end

    assert arena.window(2 * UNIT, {"a": 1, "c": 1}) == ("c",)


def test_no_window_spans_a_pinned_slab() -> None:
    arena = _arena(3, ("a", 1), ("pinned", 1), ("b", 1))

    assert arena.window(2 * UNIT, {"a": 1, "b": 2}) is None


def test_an_owner_holds_one_slab() -> None:
    arena = _arena(2, ("a", 1))

    with pytest.raises(ValueError, match="a already holds"):
        arena.alloc("a", UNIT)
    with pytest.raises(KeyError):
        arena.release("b")
    with pytest.raises(ValueError, match="0 bytes"):
        arena.alloc("b", 0)


def test_a_budget_below_one_unit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="budget"):
        Arena(UNIT - 1)
