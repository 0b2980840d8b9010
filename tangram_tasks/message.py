"""What all messages between the processes of a deployment have in common."""

from __future__ import annotations

from pydantic import ConfigDict

#: Of what clients and the scheduler say: unknown fields are refused.
SAID = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
#: Of what workers tell the scheduler: unknown fields are ignored, so that workers can be upgraded first.
REPORTED = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
