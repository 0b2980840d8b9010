"""A question whose answer is known, to notice a service that answers well-formed nonsense."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Canary(BaseModel):
    """One call with its right answers.

    Args:
        method: which method is asked.
        payload: what it is asked.
        expected: its answers, one per item of the payload.
        tolerance: largest absolute difference of a number; anything else must be equal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: str = "score"
    payload: dict[str, Any]
    expected: list[Any]
    tolerance: float = Field(default=1e-3, ge=0)

    def complaint(self, answers: Any) -> str:
        """Return what is wrong with the answers, or ""."""
        if _close(answers, self.expected, self.tolerance):
            return ""
        return f"its canary ({self.method}) gave {_short(answers)} instead of {_short(self.expected)}"


def _close(value: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(expected, list):
        return (
            isinstance(value, list)
            and len(value) == len(expected)
            and all(_close(one, other, tolerance) for one, other in zip(value, expected, strict=True))
        )
    if isinstance(expected, int | float) and isinstance(value, int | float):
        return math.isfinite(value) and abs(value - expected) <= tolerance
    return bool(value == expected)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
