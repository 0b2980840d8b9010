"""Unified diffs: parsing them, and applying one to a text. Pure.

Format: the "Unified Format" section of the GNU diffutils manual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = "\\"
_NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change. Lines keep their newline, so that a last line without one is told from others.

    Args:
        number: its place in the file's patch, from 1.
        line: where it says that it starts, from 1.
        old: the lines it replaces, with their context.
        new: what they become.
    """

    number: int
    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The changes of one file."""

    path: str
    kind: Literal["created", "changed", "deleted"]
    hunks: tuple[Hunk, ...]

    def apply(self, text: str) -> str | None:
        """Return the new text; None if the file is to be deleted. Raises ValueError naming the hunk that fails."""
        lines = split_lines(text)
        result: list[str] = []
        done = 0
        for hunk in self.hunks:
            start = _place(lines, hunk, done)
            if start is None:
                raise ValueError(
                    f"{self.path}: hunk {hunk.number} (at line {hunk.line}) does not fit: {_mismatch(lines, hunk)}; "
                    "nothing was changed"
                )
            result += lines[done:start]
            result += hunk.new
            done = start + len(hunk.old)
        result += lines[done:]
        if self.kind != "deleted":
            return "".join(result)
        if result:
            raise ValueError(f"{self.path}: the patch deletes it, but it has more lines than that; nothing was changed")
        return None


def split_lines(text: str) -> list[str]:
    """Return the lines with their newlines; nothing but a newline ends one, as for diff, grep and editors."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def parse_patch(patch: str) -> list[FilePatch]:
    """Return the changes of each file. Raises ValueError saying what is wrong with the patch."""
    lines = split_lines(patch)
    files: list[FilePatch] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith(("rename ", "copy ", "GIT binary patch", "Binary files ")):
            raise ValueError(
                f"line {at + 1}: renames, copies and binary changes cannot be applied: {lines[at].strip()}"
            )
        if lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            path, kind = _target(lines[at], lines[at + 1])
            hunks, at = _hunks(lines, at + 2)
            if not hunks:
                raise ValueError(f"{path}: no hunk follows its header: a line such as `@@ -1,3 +1,4 @@` is missing")
            files.append(FilePatch(path, kind, tuple(hunks)))
        elif _HUNK.match(lines[at]):
            raise ValueError(f"line {at + 1}: this hunk stands without the two lines `--- old` and `+++ new` before it")
        else:
            at += 1
    if not files:
        raise ValueError("this is no unified diff: the lines `--- old`, `+++ new` and `@@ ... @@` are missing")
    twice = {file.path for file in files if sum(other.path == file.path for other in files) > 1}
    if twice:
        raise ValueError(f"{', '.join(sorted(twice))} is changed twice: put its hunks together")
    return files


def _target(old: str, new: str) -> tuple[str, Literal["created", "changed", "deleted"]]:
    before, after = (line[4:].split("\t")[0].rstrip("\r\n ") for line in (old, new))
    path = before if after == _NOWHERE else after
    if path in ("", _NOWHERE):
        raise ValueError(f"a patch must name a file: {old.strip()}, {new.strip()}")
    if re.match(r"[ab]/", path) and (before == _NOWHERE or after == _NOWHERE or before[:2] == "a/"):
        path = path[2:]
    return path, "created" if before == _NOWHERE else "deleted" if after == _NOWHERE else "changed"


def _hunks(lines: list[str], at: int) -> tuple[list[Hunk], int]:
    hunks: list[Hunk] = []
    while at < len(lines) and (header := _HUNK.match(lines[at])):
        wanted = [int(header[n]) if header[n] else 1 for n in (2, 4)]
        old: list[str] = []
        new: list[str] = []
        at += 1
        while (len(old), len(new)) != tuple(wanted):
            if at >= len(lines) or not _take(lines[at], old, new):
                raise ValueError(
                    f"hunk {len(hunks) + 1} ({header[0]}) is cut short at line {at + 1} of the patch: it has "
                    f"{len(old)} old and {len(new)} new lines, its header says {wanted[0]} and {wanted[1]}"
                )
            at += 1
            at += _strip_newline(lines, at, old, new)
        hunks.append(Hunk(len(hunks) + 1, int(header[1]), tuple(old), tuple(new)))
    return hunks, at


def _take(line: str, old: list[str], new: list[str]) -> bool:
    text = line[1:]
    if line[0] in " \n":  # some editors strip the space of an empty line
        old.append(text or "\n")
        new.append(text or "\n")
    elif line[0] == "-":
        old.append(text)
    elif line[0] == "+":
        new.append(text)
    return line[0] in " \n-+"


def _strip_newline(lines: list[str], at: int, old: list[str], new: list[str]) -> int:
    """Handle `\\ No newline at end of file`, which speaks of the line before it. Returns the lines it took."""
    if at >= len(lines) or not lines[at].startswith(_NO_NEWLINE):
        return 0
    for side in {" ": (old, new), "-": (old,), "+": (new,)}.get(lines[at - 1][0], ()):
        side[-1] = side[-1].removesuffix("\n")
    return 1


def _place(lines: list[str], hunk: Hunk, done: int) -> int | None:
    """Return where the hunk fits, as near as possible to where it says; it may not reach back into the one before."""
    wanted = hunk.line - 1 if hunk.old else hunk.line
    last = len(lines) - len(hunk.old)
    fits = (start for start in _around(max(wanted, done), done, last) if _fits(lines, hunk, start))
    return next(fits, None)


def _around(wanted: int, first: int, last: int) -> Iterator[int]:
    for distance in range(max(wanted - first, last - wanted, 0) + 1):
        for start in dict.fromkeys((wanted + distance, wanted - distance)):
            if first <= start <= last:
                yield start


def _fits(lines: list[str], hunk: Hunk, start: int) -> bool:
    return tuple(lines[start : start + len(hunk.old)]) == hunk.old


def _mismatch(lines: list[str], hunk: Hunk) -> str:
    for number, (found, wanted) in enumerate(zip(lines[hunk.line - 1 :], hunk.old, strict=False), hunk.line):
        if found != wanted:
            return f"line {number} is {found.rstrip()!r}, the patch wants {wanted.rstrip()!r}"
    return "the file ends before it"
