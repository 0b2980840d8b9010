"""Text: tables, wrapping, slugs and how far two words are apart."""

import re
from typing import List, Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with aligned columns; numbers to the right."""
    columns = list(zip(header, *rows))
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [all(_is_number(cell) for cell in column[1:]) for column in columns]
    lines = []
    for row in (header, ["-" * width for width in widths], *rows):
        cells = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?\s?%?", text) is not None


def wrap(text: str, width: int) -> List[str]:
    """Return lines of at most `width` characters; a longer word gets a line of its own."""
    if width < 1:
        raise ValueError("width must be at least 1")
    lines: List[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def slug(text: str) -> str:
    """Return lower-case words joined by dashes."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))


def distance(left: str, right: str) -> int:
    """Return the Levenshtein distance."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


def closest(word: str, known: Sequence[str]) -> str:
    """Return the known word nearest to `word`."""
    return min(known, key=lambda k: (distance(word.lower(), k.lower()), k))
