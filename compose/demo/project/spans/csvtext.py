"""A small CSV reader and writer: commas, double quotes, line breaks inside quotes."""

from typing import Iterable, List, Sequence


class CsvError(ValueError):
    """The text is not CSV; the message names the line."""


def parse(text: str) -> List[List[str]]:
    """Return the rows of `text`; empty lines are skipped."""
    rows: List[List[str]] = []
    row: List[str] = []
    field: List[str] = []
    quoted = was_quoted = False
    line = 1
    i = 0
    while i < len(text):
        c = text[i]
        line += c == "\n"
        if quoted:
            if c == '"' and text[i + 1 : i + 2] == '"':
                field.append('"')
                i += 1
            elif c == '"':
                quoted = False
            else:
                field.append(c)
        elif c == '"':
            if field or was_quoted:
                raise CsvError(f"line {line}: a quote inside a bare field")
            quoted = was_quoted = True
        elif c == ",":
            row.append("".join(field))
            field, was_quoted = [], False
        elif c == "\n":
            if row or field or was_quoted:
                rows.append([*row, "".join(field)])
            row, field, was_quoted = [], [], False
        elif c != "\r":
            if was_quoted:
                raise CsvError(f"line {line}: text after a closing quote")
            field.append(c)
        i += 1
    if quoted:
        raise CsvError(f"line {line}: the file ends inside quotes")
    if row or field or was_quoted:
        rows.append([*row, "".join(field)])
    return rows


def quote(field: str) -> str:
    """Return one field, in quotes if it needs them."""
    if field == "" or any(c in field for c in ',"\n\r'):
        return '"' + field.replace('"', '""') + '"'
    return field


def dump(rows: Iterable[Sequence[str]]) -> str:
    """Return `rows` as CSV text."""
    return "".join(",".join(quote(field) for field in row) + "\n" for row in rows)
