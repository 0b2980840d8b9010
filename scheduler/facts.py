"""What a leading scheduler tells whoever watches it: metrics, the pseudo-worker of Flower, traces.

A watcher is called in the scheduler's loop, between two steps: it must be quick and must not block. What it raises is
logged and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tangram_tasks.grants import DoneRecord

if TYPE_CHECKING:
    from scheduler.books import Books
    from scheduler.entries import Entry
    from scheduler.envelope import Envelope
    from tangram_tasks.wire import GrantHeader


@dataclass(frozen=True, slots=True)
class Leads:
    """This process leads from now on, with these books."""

    books: Books


@dataclass(frozen=True, slots=True)
class Resigned:
    """This process leads no more; its books are void."""


@dataclass(frozen=True, slots=True)
class Waits:
    """An action waits, for the first time or again."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Granted:
    """An action was given a grant."""

    entry: Entry
    grant: GrantHeader


@dataclass(frozen=True, slots=True)
class Released:
    """The grant that an action holds has ended; the entry still has it."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker told how an action ended."""

    entry: Entry
    record: DoneRecord


@dataclass(frozen=True, slots=True)
class Refused:
    """An action will not run: `outcome` is "cancelled", "expired" or the class name of its error."""

    envelope: Envelope
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Looked:
    """The scheduler has looked at the nodes, as it does about twice a second."""

    books: Books


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step is over; it took so many seconds."""

    seconds: float


Fact = Leads | Resigned | Waits | Granted | Released | Ended | Refused | Looked | Stepped
Watcher = Callable[[Fact], None]
