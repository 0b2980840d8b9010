import pytest

from spans import Interval, gaps, intersect, merge, subtract


def spans(*pairs):
    return [Interval(a, b) for a, b in pairs]


def test_length():
    assert Interval(2, 5).length == 3
    assert Interval(5, 2).length == 0


@pytest.mark.parametrize("t, inside", [(1, False), (2, True), (4, True), (5, False)])
def test_contains(t, inside):
    assert Interval(2, 5).contains(t) is inside


@pytest.mark.parametrize(
    "left, right, expected",
    [((0, 2), (2, 4), False), ((0, 3), (2, 4), True), ((0, 9), (2, 4), True), ((5, 6), (0, 5), False)],
)
def test_overlaps(left, right, expected):
    assert Interval(*left).overlaps(Interval(*right)) is expected
    assert Interval(*right).overlaps(Interval(*left)) is expected


def test_shifted():
    assert Interval(2, 5).shifted(-2) == (0, 3)


def test_merge_nothing():
    assert merge([]) == []


def test_merge_sorts():
    assert merge(spans((6, 8), (0, 2))) == spans((0, 2), (6, 8))


def test_merge_joins_overlapping():
    assert merge(spans((0, 4), (3, 7))) == spans((0, 7))


def test_merge_joins_touching():
    assert merge(spans((0, 4), (4, 7))) == spans((0, 7))


def test_merge_drops_empty():
    assert merge(spans((3, 3), (5, 4))) == []


def test_merge_keeps_the_outer_of_nested():
    assert merge(spans((0, 10), (2, 4))) == spans((0, 10))


def test_merge_nested_then_more():
    assert merge(spans((0, 10), (2, 4), (9, 12), (20, 21))) == spans((0, 12), (20, 21))


def test_intersect():
    assert intersect(spans((0, 5), (8, 12)), spans((3, 9))) == spans((3, 5), (8, 9))


def test_intersect_with_nothing():
    assert intersect(spans((0, 5)), []) == []


def test_subtract_middle():
    assert subtract(spans((0, 10)), spans((3, 5))) == spans((0, 3), (5, 10))


def test_subtract_edges():
    assert subtract(spans((0, 10)), spans((-5, 2), (9, 20))) == spans((2, 9))


def test_subtract_all():
    assert subtract(spans((2, 4)), spans((0, 10))) == []


def test_gaps():
    assert gaps(spans((2, 3), (5, 7)), Interval(0, 10)) == spans((0, 2), (3, 5), (7, 10))


def test_gaps_of_a_free_day():
    assert gaps([], Interval(0, 10)) == spans((0, 10))
