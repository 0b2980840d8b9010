"""Nodes that answer but start nothing: they take nothing new for a while, longer each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

#: So many different actions in a row that a node did not start put it into quarantine.
STRIKES = 3
#: Seconds of the first quarantine; each further one takes twice as long, up to the limit.
FIRST, LIMIT = 10.0, 300.0


class QuarantineRecord(BaseModel):
    """A node's quarantine as the ledger keeps it.

    Args:
        generation: the process it was put on; a new one begins with a clean sheet.
        times: how often this process was in quarantine.
        until: wall clock ms at which it is tried again.
    """

    model_config = ConfigDict(frozen=True)

    generation: str
    times: int
    until: int

    def over(self, now: int) -> bool:
        """Whether the node is to be tried again at `now`, ms."""
        return now >= self.until


@dataclass(slots=True)
class Quarantine:
    """The strikes of nodes and who is in quarantine. Moments are in ms."""

    records: dict[str, QuarantineRecord] = field(default_factory=dict)
    strikes: dict[str, set[str]] = field(default_factory=dict)
    served: set[str] = field(default_factory=set)  # quarantine is over, on probation

    def strike(self, node: str, generation: str, action: str, now: int) -> QuarantineRecord | None:
        """Note an action that a node did not start. Returns the record if that puts it into quarantine now.

        One on probation needs a single strike.
        """
        actions = self.strikes.setdefault(node, set())
        actions.add(action)
        if self.holds(node) or len(actions) < (1 if node in self.served else STRIKES):
            return None
        known = self.records.get(node)
        times = known.times + 1 if known is not None and known.generation == generation else 1
        pause = min(LIMIT, FIRST * 2 ** (times - 1))
        record = QuarantineRecord(generation=generation, times=times, until=now + round(pause * 1000))
        self.records[node] = record
        self.served.discard(node)
        self.strikes.pop(node)
        return record

    def works(self, node: str) -> None:
        """Note that a node ended an action: it is no longer suspected, nor on probation."""
        self.strikes.pop(node, None)
        self.served.discard(node)

    def holds(self, node: str) -> bool:
        """Whether a node is in quarantine."""
        return node in self.records and node not in self.served

    def release(self, now: int) -> list[str]:
        """Return the nodes whose quarantine is over now; they are on probation."""
        due = [node for node, record in self.records.items() if node not in self.served and record.over(now)]
        self.served.update(due)
        return due

    def keep_only(self, generations: Mapping[str, str]) -> list[str]:
        """Forget nodes that left or whose process was replaced; returns those that had a record."""
        gone = [node for node, record in self.records.items() if generations.get(node) != record.generation]
        for node in gone:
            self.records.pop(node)
            self.works(node)
        return gone
