"""Bookings of rooms, in minutes since midnight."""

from typing import Dict, List, NamedTuple

from spans.csvtext import parse
from spans.interval import Interval, gaps, merge

OPEN = Interval(8 * 60, 18 * 60)


class Booking(NamedTuple):
    room: str
    who: str
    when: Interval


def parse_time(text: str) -> int:
    """Return minutes since midnight of "9:05" or "14:30"."""
    hours, _, minutes = text.strip().partition(":")
    if not (hours.isdigit() and minutes.isdigit() and len(minutes) == 2):
        raise ValueError(f"not a time: {text!r}")
    if int(hours) > 24 or int(minutes) > 59 or (int(hours) == 24 and int(minutes)):
        raise ValueError(f"no such time of day: {text!r}")
    return int(hours) * 60 + int(minutes)


def format_time(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02d}"


def read_bookings(text: str) -> List[Booking]:
    """Return the bookings of a CSV with the columns room, who, start, end."""
    rows = parse(text)
    if not rows or rows[0] != ["room", "who", "start", "end"]:
        raise ValueError("the first line must be: room,who,start,end")
    bookings = []
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != 4:
            raise ValueError(f"row {number}: {len(row)} columns, not 4")
        when = Interval(parse_time(row[2]), parse_time(row[3]))
        if not when.length:
            raise ValueError(f"row {number}: ends before it starts")
        bookings.append(Booking(row[0], row[1], when))
    return bookings


def busy_times(bookings: List[Booking]) -> Dict[str, List[Interval]]:
    """Return the disjoint busy times of each room."""
    rooms: Dict[str, List[Interval]] = {}
    for booking in bookings:
        rooms.setdefault(booking.room, []).append(booking.when)
    return {room: merge(times) for room, times in sorted(rooms.items())}


def free_times(bookings: List[Booking], room: str, within: Interval = OPEN) -> List[Interval]:
    """Return when `room` is free during opening hours."""
    return gaps(busy_times(bookings).get(room, []), within)


def first_free(bookings: List[Booking], room: str, minutes: int, within: Interval = OPEN):
    """Return the first free interval of at least `minutes`, or None."""
    return next((i for i in free_times(bookings, room, within) if i.length >= minutes), None)


def utilisation(bookings: List[Booking], room: str, within: Interval = OPEN) -> float:
    """Return the busy share of opening hours, 0 to 1."""
    free = sum(i.length for i in free_times(bookings, room, within))
    return 1 - free / within.length
