"""What a node reports of the grants that it holds."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class HeldGrant(_Report):
    """A grant that a node has claimed and not ended; `units` is 0 where it does not count them, or not yet."""

    grant: str
    action: str
    units: int = Field(ge=0)


class GrantsHeld(_Report):
    """Node to scheduler, now and then: everything that is granted here, to be compared with the ledger.

    Args:
        node: the node.
        generation: its process.
        at: when it looked, by the Redis server's clock, s.
        held: what it found.
    """

    event: Literal["held"] = "held"
    node: str
    generation: str
    at: float
    held: tuple[HeldGrant, ...]
