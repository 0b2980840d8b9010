import pytest

from spans import Interval
from spans.booking import busy_times, first_free, format_time, free_times, parse_time, read_bookings, utilisation
from spans.report import render

TEXT = """room,who,start,end
Aula,Ann,9:00,12:00
Aula,Bob,10:00,10:30
Hall,Cem,8:00,9:00
Hall,Dora,9:00,18:00
"""


@pytest.fixture
def bookings():
    return read_bookings(TEXT)


@pytest.mark.parametrize("text, minutes", [("0:00", 0), ("9:05", 545), (" 14:30 ", 870), ("24:00", 1440)])
def test_parse_time(text, minutes):
    assert parse_time(text) == minutes


@pytest.mark.parametrize("text", ["", "9", "9:5", "25:00", "9:60", "24:01", "-1:00"])
def test_parse_time_refuses(text):
    with pytest.raises(ValueError, match="time"):
        parse_time(text)


def test_format_time():
    assert format_time(545) == "9:05"


def test_read(bookings):
    assert len(bookings) == 4
    assert bookings[0] == ("Aula", "Ann", (540, 720))


@pytest.mark.parametrize("row, message", [("A,b,9:00", "columns"), ("A,b,9:00,8:00", "row 2"), ("A,b,x,9:00", "time")])
def test_read_refuses(row, message):
    with pytest.raises(ValueError, match=message):
        read_bookings("room,who,start,end\n" + row)


def test_read_needs_a_header():
    with pytest.raises(ValueError, match="first line"):
        read_bookings("A,b,9:00,10:00\n")


def test_busy_times(bookings):
    assert busy_times(bookings) == {"Aula": [(540, 720)], "Hall": [(480, 1080)]}


def test_free_times(bookings):
    assert free_times(bookings, "Aula") == [Interval(480, 540), Interval(720, 1080)]
    assert free_times(bookings, "Hall") == []


def test_first_free(bookings):
    assert first_free(bookings, "Aula", 90) == (720, 1080)
    assert first_free(bookings, "Hall", 1) is None


def test_unknown_room_is_free(bookings):
    assert utilisation(bookings, "Attic") == 0


def test_utilisation(bookings):
    assert utilisation(bookings, "Aula") == pytest.approx(0.3)


def test_report(bookings):
    lines = render(bookings).splitlines()
    assert lines[2].split() == ["Aula", "9:00-12:00", "30%", "8:00"]
    assert lines[3].split() == ["Hall", "8:00-18:00", "100%", "none"]
