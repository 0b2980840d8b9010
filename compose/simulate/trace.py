"""Batches from a CSV file, one row per action."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from compose.simulate.work import Plan, Turn, Work, Workload, ms
from compose.simulate.workloads.draws import amdahl
from tangram_tasks.errors import ConfigurationError


def _split(text: object) -> object:
    return text.split("|") if isinstance(text, str) else text


def _rising(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if sizes[0] < 1 or any(small >= large for small, large in pairwise(sizes)):
        raise ValueError("sizes must rise from 1 or more")
    return sizes


Sizes = Annotated[tuple[int, ...], Field(min_length=1), BeforeValidator(_split), AfterValidator(_rising)]


class TraceRow(BaseModel):
    """One action; the field names are the columns, those with a default may be absent or empty.

    Args:
        trajectory: which one it belongs to.
        turn: actions with the same number run side by side; the next number waits for all of them.
        gap_s: seconds from the end of the turn before to this turn; of the first turn: from the start.
        task: what kind it is.
        duration_s: seconds on the smallest size.
        key: "cpu", "gpu" or "api:NAME".
        sizes: allowed units, ascending, with "|" between them.
        serial: share of the work that no further unit speeds up (Amdahl's law).
        malleable: whether its units may change while it runs.
        service: GPU only: the service it needs resident.
        restore_s: GPU only: page-in of that service.
        start_s: of the trajectory, from the start of the batch.
        memory_mib: of the trajectory's sandbox.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    trajectory: str = Field(min_length=1)
    turn: int
    gap_s: float = Field(ge=0)
    task: str = Field(min_length=1)
    duration_s: float = Field(ge=0)
    key: str = Field(default="cpu", pattern=r"^(cpu|gpu|api:.+)$")
    sizes: Sizes = (1,)
    serial: float = Field(default=0.0, ge=0, le=1)
    malleable: bool = False
    service: str | None = None
    restore_s: float = Field(default=0.0, ge=0)
    start_s: float = Field(default=0.0, ge=0)
    memory_mib: int = Field(default=1024, ge=0)

    def work(self) -> Work:
        """Return the action."""
        smallest = self.serial + (1 - self.serial) / self.sizes[0]
        durations = amdahl(1000 * self.duration_s / smallest, self.serial, self.sizes)
        service = self.service or (self.task if self.key == "gpu" else None)
        return Work(self.task, self.key, self.sizes, durations, self.malleable, service=service)


def read_trace(path: Path) -> Workload:
    """Return the batch in a CSV file with the columns of `TraceRow`; rows of a trajectory stand in order of turns.

    Raises:
        ConfigurationError: the file cannot be read, or a row is wrong; the message names it.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(_rows(path, csv.DictReader(file)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"cannot read the trace {path}: {error}") from None
    if not rows:
        raise ConfigurationError(f"the trace {path} has no rows below its heading")
    trajectories: dict[str, list[TraceRow]] = {}
    for row in rows:
        trajectories.setdefault(row.trajectory, []).append(row)
    restores = {row.service or row.task: ms(row.restore_s) for row in rows if row.key == "gpu"}
    return Workload(path.stem, tuple(_plan(name, found) for name, found in trajectories.items()), restores=restores)


def _rows(path: Path, reader: Iterable[dict[str, str]]) -> Iterator[TraceRow]:
    for line, row in enumerate(reader, 2):
        try:
            yield TraceRow.model_validate({name: value for name, value in row.items() if value not in ("", None)})
        except ValidationError as error:
            first = error.errors()[0]
            column = ".".join(map(str, first["loc"]))
            raise ConfigurationError(f"the trace {path}, line {line}, column {column}: {first['msg']}") from None


def _plan(name: str, rows: list[TraceRow]) -> Plan:
    turns = []
    for _, side_by_side in groupby(rows, key=lambda row: row.turn):
        found = list(side_by_side)
        turns.append(Turn(round(1000 * found[0].gap_s), tuple(row.work() for row in found)))
    sandbox = any(row.key == "cpu" for row in rows)
    return Plan(name, tuple(turns), round(1000 * rows[0].start_s), rows[0].memory_mib if sandbox else None)
