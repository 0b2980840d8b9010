"""Cells against exhaustive search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tangram_tasks.errors import ConfigurationError
from workers.cells import LEVELS, Cell, CellTree, Want, arrange

EIGHT = CellTree([range(8)])
FREE = st.sets(st.integers(0, 7))


def _search(tree: CellTree, free: set[int], demands: Sequence[int]) -> bool:
    if not demands:
        return True
    fitting = (cell for cell in tree.choices(demands[0]) if free.issuperset(cell))
    return any(_search(tree, free - set(cell), demands[1:]) for cell in fitting)


@given(free=FREE, demands=st.lists(st.sampled_from(LEVELS), max_size=8))
def test_counting_levels_equals_search(free: set[int], demands: list[int]) -> None:
    assert EIGHT.fits(free, demands) == _search(EIGHT, free, sorted(demands, reverse=True))


@given(free=FREE, sizes=st.lists(st.sampled_from((1, 2, 4)), max_size=3), data=st.data())
def test_the_arrangement_is_the_cheapest(free: set[int], sizes: list[int], data: st.DataObject) -> None:
    wants = []
    for size in sizes:
        cost = {cell: float(data.draw(st.integers(0, 9))) for cell in EIGHT.choices(size)}
        wants.append(Want(tuple(cost), cost))
    totals = [
        sum(want.cost[cell] for want, cell in zip(wants, cells, strict=True))
        for cells in product(*(want.choices for want in wants))
        if _disjoint(cells, free)
    ]
    found = arrange(free, wants)
    assert (found is None) == (not totals)
    if found is not None:
        assert _disjoint(found, free)
        assert sum(want.cost[cell] for want, cell in zip(wants, found, strict=True)) == min(totals)


def _disjoint(cells: Sequence[Cell], free: set[int]) -> bool:
    devices = [index for cell in cells for index in cell]
    return len(devices) == len(set(devices)) and free.issuperset(devices)


def test_cells_stay_inside_their_group_but_the_whole_node() -> None:
    tree = CellTree([(0, 2, 4, 6), (1, 3, 5, 7)])
    assert tree.choices(2) == ((0, 2), (4, 6), (1, 3), (5, 7))
    assert tree.choices(4) == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert tree.choices(8) == ((0, 2, 4, 6, 1, 3, 5, 7),)
    assert CellTree([(0,), (1,)]).choices(2) == ((0, 1),)  # no fast link: any two


def test_a_size_without_cells_takes_any_devices() -> None:
    assert CellTree([range(3)]).choices(3) == ((0, 1, 2),)


def test_broken_counts_larger_free_cells() -> None:
    assert EIGHT.broken((0,), range(8)) == 3
    assert EIGHT.broken((0,), {0, 1, 2}) == 1
    assert EIGHT.broken((0, 1), {0, 1}) == 0


@pytest.mark.parametrize("groups", [[[0, 0]], [[1]], [[0], [0, 1]]])
def test_groups_name_each_device_once(groups: list[list[int]]) -> None:
    with pytest.raises(ConfigurationError, match=r"each of its \d devices once"):
        CellTree(groups)
