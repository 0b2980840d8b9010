"""How an action's duration falls with the units it is given.

With base duration T (on one unit) and efficiency E(m), `duration(m) = T / (E(m) * m)` (paper, section 4).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class _Curve(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def efficiency(self, units: int) -> float:
        """Return E(m), 0 < E <= 1, for m = `units` >= 1."""
        raise NotImplementedError

    def duration(self, base: float, units: int) -> float:
        """Return the duration in seconds on `units`, given `base` seconds on one unit."""
        return base / (self.efficiency(units) * units)


class Fixed(_Curve):
    """More units do not help: the duration is the base duration whatever is granted."""

    kind: Literal["fixed"] = "fixed"

    def efficiency(self, units: int) -> float:
        """Return 1/m, so that the duration stays the base duration."""
        return 1.0 / units


class Amdahl(_Curve):
    """Amdahl's law: a share `serial` of the work gains nothing from more units.

    Args:
        serial: between 0 (perfectly parallel) and 1 (not at all).
    """

    kind: Literal["amdahl"] = "amdahl"
    serial: float = Field(ge=0.0, le=1.0)

    def efficiency(self, units: int) -> float:
        """Return 1 / (1 + serial * (m - 1))."""
        return 1.0 / (1.0 + self.serial * (units - 1))


class Table(_Curve):
    """Measured speed-ups: units to how many times faster than one unit.

    Args:
        speedup: for example `{1: 1.0, 2: 1.9, 4: 3.4}`. It may not fall, and may not beat linear. Between two
            entries the smaller one counts; units below the first entry are not allowed.
    """

    kind: Literal["table"] = "table"
    speedup: dict[int, float]

    @field_validator("speedup")
    @classmethod
    def _is_monotone(cls, speedup: dict[int, float]) -> dict[int, float]:
        rows = sorted(speedup.items())
        if not rows or rows[0][0] < 1:
            raise ValueError("a speed-up table needs rows for units >= 1")
        if any(later < earlier for (_, earlier), (_, later) in pairwise(rows)):
            raise ValueError(f"a speed-up table may not fall with more units: {dict(rows)}")
        if any(not 0 < gain <= units for units, gain in rows):
            raise ValueError(f"a speed-up must be above 0 and at most linear: {dict(rows)}")
        return dict(rows)

    def efficiency(self, units: int) -> float:
        """Return speed-up / m of the largest row that is at most `units`."""
        rows = [gain for known, gain in self.speedup.items() if known <= units]
        if not rows:
            raise ValueError(f"the speed-up table starts at {min(self.speedup)} units, not {units}")
        return rows[-1] / units


Elasticity = Annotated[Fixed | Amdahl | Table, Field(discriminator="kind")]
