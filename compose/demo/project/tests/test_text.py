import pytest

from spans.text import closest, distance, slug, table, wrap


def test_table_aligns_numbers_right():
    assert table(["room", "n"], [["A", "7"], ["Long", "12"]]) == "room   n\n----  --\nA      7\nLong  12"


def test_table_without_rows():
    assert table(["a", "bc"], []).splitlines()[0].split() == ["a", "bc"]


def test_wrap():
    assert wrap("the quick brown fox", 9) == ["the quick", "brown fox"]


def test_wrap_long_word():
    assert wrap("a extraordinary b", 5) == ["a", "extraordinary", "b"]


def test_wrap_refuses_no_width():
    with pytest.raises(ValueError, match="width"):
        wrap("a", 0)


@pytest.mark.parametrize("text, expected", [("Room A 1", "room-a-1"), ("  --x  ", "x"), ("", "")])
def test_slug(text, expected):
    assert slug(text) == expected


@pytest.mark.parametrize(
    "left, right, expected", [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("room", "rome", 2)]
)
def test_distance(left, right, expected):
    assert distance(left, right) == expected
    assert distance(right, left) == expected


def test_closest():
    assert closest("Aule", ["Hall", "Aula", "Attic"]) == "Aula"
