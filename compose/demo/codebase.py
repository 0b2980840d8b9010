"""The small Python project that every trajectory repairs: its files, and the edit that fixes it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement of text in one file.

    Args:
        path: relative to the project.
        old: text that must be there exactly once.
        new: what replaces it.
    """

    path: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """Return the edited text. Raises ValueError if the old text is not there exactly once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path}: the text to replace is there {text.count(self.old)} times, not once")
        return text.replace(self.old, self.new)


#: `merge` forgets the outer interval when a shorter one lies inside it.
FIX = Edit(
    path="spans/interval.py",
    old="merged[-1] = Interval(merged[-1].start, current.end)",
    new="merged[-1] = Interval(merged[-1].start, max(merged[-1].end, current.end))",
)


def project_files() -> dict[str, str]:
    """Return the project as relative path to text, with its bug."""
    return dict(sorted(_walk(files("compose.demo").joinpath("project"), "")))


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir() and not entry.name.startswith(("__pycache__", ".")):
            found += _walk(entry, name + "/")
        elif entry.name.endswith((".py", ".toml", ".md")):
            found.append((name, entry.read_text(encoding="utf-8")))
    return found
