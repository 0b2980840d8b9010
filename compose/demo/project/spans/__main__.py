"""Print the report of a bookings file."""

import sys
from pathlib import Path

from spans.booking import read_bookings
from spans.report import render

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python3 -m spans BOOKINGS.csv")
    print(render(read_bookings(Path(sys.argv[1]).read_text(encoding="utf-8"))))
