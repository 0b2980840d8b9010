"""The report: one line per room."""

from typing import List

from spans.booking import Booking, busy_times, first_free, format_time, utilisation
from spans.text import table


def render(bookings: List[Booking], minutes: int = 30) -> str:
    """Return rooms with their busy times, utilisation and the first free slot of `minutes`."""
    rows = []
    for room, times in busy_times(bookings).items():
        busy = " ".join(f"{format_time(i.start)}-{format_time(i.end)}" for i in times)
        slot = first_free(bookings, room, minutes)
        rows.append(
            [room, busy, f"{utilisation(bookings, room):.0%}", format_time(slot.start) if slot else "none"]
        )
    return table(["room", "busy", "used", f"free {minutes} min"], rows)
