"""Records what the core is told and what it answers, as JSON lines, and reads such records.

The first line of a file, and of every new lead, is a header with the policy; every other line has events that were
taken in together and the decisions that followed. A fresh core that is told the same gives the same decisions.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter

from scheduler.core import events
from scheduler.core.admission import Admission
from scheduler.core.events import Decision, Event
from tangram_tasks.errors import ConfigurationError

logger = logging.getLogger(__name__)

FORMAT = "tangram-events/1"


@dataclass(frozen=True, slots=True)
class Step:
    """What the core was told at once, and what it answered.

    Args:
        line: of the file, from 1.
        events: what had happened, at least one.
        decisions: what followed.
    """

    line: int
    events: list[Event]
    decisions: list[Decision]


@dataclass(frozen=True, slots=True)
class Lead:
    """What one leading scheduler recorded.

    Args:
        policy: of its core.
        depth: of its core.
        gpu_policy: of its core.
        steps: in order.
    """

    policy: str
    depth: int
    gpu_policy: str
    steps: list[Step] = field(default_factory=list)


@contextmanager
def open_record(path: Path) -> Iterator[FileIO]:
    """Open a file to append records to. Raises ConfigurationError if it cannot be written."""
    try:
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise ConfigurationError(f"cannot record events in {path}: {error.strerror}") from None
    with file:
        yield file


class RecordedAdmission(Admission):
    """A core that writes down every event and all decisions; each line is in the file before the next event.

    When the file can take no more, recording ends and scheduling goes on.

    Args:
        file: from `open_record`.
        policy: as of Admission.
        depth: as of Admission.
        gpu_policy: as of Admission.
    """

    def __init__(self, file: FileIO, policy: str, depth: int, *, gpu_policy: str) -> None:
        super().__init__(policy, depth, gpu_policy=gpu_policy)
        self._file = file
        self._full = False
        self._write({"format": FORMAT, "policy": policy, "depth": depth, "gpu_policy": gpu_policy})

    def handle_all(self, events: Iterable[Event]) -> list[Decision]:
        """Take in events, write them down, and return everything that follows from them."""
        told = list(events)
        decisions = super().handle_all(told)
        if told and not self._full:
            self._write({"events": [*map(_encoded, told)], "decisions": [*map(_encoded, decisions)]})
        return decisions

    def _write(self, row: dict[str, Any]) -> None:
        line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        try:
            self._full = self._file.write(line) != len(line)
        except OSError:
            self._full = True
        if self._full:
            logger.warning("recording events ends: %s can take no more", self._file.name)


def read_record(file: Path) -> list[Lead]:
    """Return what each lead recorded. A last line that a kill cut short is left out.

    Raises:
        ConfigurationError: the file cannot be read, or a line is no record.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the record {file}: {error}") from None
    whole = [line for line in lines if line.endswith("\n")]
    leads: list[Lead] = []
    for number, row in _rows(file, whole):
        try:
            if "format" in row:
                leads.append(_lead(row))
            else:
                leads[-1].steps.append(_step(number, row))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ConfigurationError(f"the record {file}, line {number}, is not of format {FORMAT}: {error}") from None
    if not leads:
        raise ConfigurationError(f"the record {file} is empty")
    return leads


def _rows(file: Path, lines: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigurationError(f"the record {file}, line {number}, is not JSON: {error}") from None
        yield number, row


def _lead(row: dict[str, Any]) -> Lead:
    if row["format"] != FORMAT:
        raise ValueError(f"its format is {row['format']!r}")
    return Lead(row["policy"], row["depth"], row["gpu_policy"])


def _step(line: int, row: dict[str, Any]) -> Step:
    if not row["events"]:
        raise ValueError("it has no events")
    return Step(line, [*map(_decoded, row["events"])], [*map(_decoded, row["decisions"])])


def _encoded(value: Event | Decision) -> dict[str, Any]:
    encoded: dict[str, Any] = _adapter(type(value).__name__).dump_python(value, mode="json")
    return {"type": type(value).__name__, **encoded}


def _decoded(row: dict[str, Any]) -> Any:
    return _adapter(row.pop("type")).validate_python(row)


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    known = {kind.__name__: kind for kind in (*get_args(events.Event), *get_args(events.Decision))}
    if name not in known:
        raise ValueError(f"there is no event or decision {name!r}")
    return TypeAdapter(known[name])
