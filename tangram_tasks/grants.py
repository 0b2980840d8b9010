"""A grant as the ledger keeps it, its end, and how its message is named: what scheduler and workers both write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from tangram_tasks.message import REPORTED
from tangram_tasks.report import ActionReport


class GrantRecord(BaseModel):
    """A grant as the ledger keeps it. `at` is in ms."""

    model_config = ConfigDict(frozen=True)

    seq: int
    action: str
    node: str
    generation: str
    units: int
    at: int
    lane: int = 0


class DoneRecord(BaseModel):
    """Worker to scheduler, once per grant: the action ended.

    Args:
        grant: the grant id.
        action: the task id.
        outcome: "ok", "error", "retry", "requeue", "ignored", "refused" (its node could not hold the grant; the body
            never started), "later" (its provider wants it again after `wait`) or the class name of a TangramError.
        report: where its time went; absent if the body never started.
        wait: seconds.
        lane: that of the grant.
    """

    model_config = REPORTED

    grant: str
    action: str
    outcome: str
    report: ActionReport | None = None
    wait: float = 0.0
    lane: int = 0


def message_id(headers: Mapping[str, Any]) -> str:
    """Return what names one message: its action's id, and which retry and replacement of it this is."""
    return f"{headers['id']}|{headers.get('retries') or 0}|{headers.get('replaced_task_nesting') or 0}"


def sequence(grant: str) -> int:
    """Return the place in the order of arrival that a grant's id names."""
    return int(grant.split("-")[1])
