"""Compare with the obvious slow way, on random input."""

import random

import pytest

from spans import Interval, intersect, merge, subtract
from spans.csvtext import dump, parse
from spans.text import distance

DAY = 400
ROUNDS_SETS = 400
ROUNDS_CSV = 90
ROUNDS_DISTANCE = 180


def draw(rng, count):
    starts = [rng.randrange(DAY) for _ in range(count)]
    return [Interval(start, min(DAY, start + rng.randrange(60))) for start in starts]


def minutes(intervals):
    return {t for i in intervals for t in range(i.start, i.end)}


@pytest.mark.parametrize("seed", range(4))
def test_sets(seed):
    rng = random.Random(seed)
    wrong = 0
    for _ in range(ROUNDS_SETS):
        left, right = draw(rng, 20), draw(rng, 20)
        a, b = minutes(left), minutes(right)
        wrong += minutes(merge(left)) != a
        wrong += minutes(intersect(left, right)) != a & b
        wrong += minutes(subtract(left, right)) != a - b
    assert wrong == 0


@pytest.mark.parametrize("seed", range(4))
def test_csv_round_trip(seed):
    rng = random.Random(seed)
    for _ in range(ROUNDS_CSV):
        rows = [["".join(rng.choices('ab ,"\n', k=6)) for _ in range(5)] for _ in range(30)]
        assert parse(dump(rows)) == rows


@pytest.mark.parametrize("seed", range(4))
def test_distance_is_a_metric(seed):
    rng = random.Random(seed)
    for _ in range(ROUNDS_DISTANCE):
        a, b, c = ("".join(rng.choices("abcd", k=rng.randrange(24))) for _ in range(3))
        assert distance(a, b) == distance(b, a)
        assert distance(a, c) <= distance(a, b) + distance(b, c)
