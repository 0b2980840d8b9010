import pytest

from spans.csvtext import CsvError, dump, parse, quote


@pytest.mark.parametrize(
    "text, rows",
    [
        ("", []),
        ("a,b\n", [["a", "b"]]),
        ("a,b", [["a", "b"]]),
        ("a,,b\n", [["a", "", "b"]]),
        ("a\n\nb\n", [["a"], ["b"]]),
        ("a,b\r\nc,d\r\n", [["a", "b"], ["c", "d"]]),
        ('"a,b",c\n', [["a,b", "c"]]),
        ('"say ""hi"""\n', [['say "hi"']]),
        ('"two\nlines",x\n', [["two\nlines", "x"]]),
        ('""\n', [[""]]),
    ],
)
def test_parse(text, rows):
    assert parse(text) == rows


@pytest.mark.parametrize(
    "text, line", [('a,"b', 1), ('x\na"b\n', 2), ('"a"b\n', 1)], ids=["open quote", "stray quote", "text after"]
)
def test_parse_refuses(text, line):
    with pytest.raises(CsvError, match=f"line {line}"):
        parse(text)


@pytest.mark.parametrize("field, text", [("a", "a"), ("a b", "a b"), ("a,b", '"a,b"'), ('"', '""""'), ("", '""')])
def test_quote(field, text):
    assert quote(field) == text


def test_round_trip():
    rows = [["room", "who"], ["A 1", 'Ann "the boss", B.'], ["", "two\nlines"]]
    assert parse(dump(rows)) == rows
